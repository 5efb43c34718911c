package support

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// page is how many objects are asked for at once.
const page = 250

// groups of which every resource is gathered, by what they end with.
var groups = []string{"cluster.x-k8s.io", "slipway.dev"}

// resource is a kind that is gathered.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
	selector   string
}

// others are resources of Kubernetes that tell of Slipway. Secrets are a stage of their own;
// ConfigMaps and Jobs, in which anything may be, are left out.
var others = []resource{
	{schema.GroupVersionResource{Version: "v1", Resource: "events"}, true, ""},
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, true, infrav1.HostLabel},
	{schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}, false, infrav1.HostLabel},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true, clusterv1.ProviderNameLabel},
}

// objects gathers all of Cluster API and of Slipway, and what tells of them.
func (c *collector) objects(ctx context.Context) error {
	if c.clients == nil {
		return nil
	}
	found, err := c.clients.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		c.lacks("objects", err)
		return nil
	}
	if err != nil {
		c.lacks("objects of some groups", err)
	}
	for _, r := range append(ours(found), served(found)...) {
		if err := c.list(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// served are the others that a cluster has: a plane has no Deployments.
func served(found []*metav1.APIResourceList) []resource {
	return slices.DeleteFunc(slices.Clone(others), func(r resource) bool {
		return !slices.ContainsFunc(found, func(list *metav1.APIResourceList) bool {
			return list.GroupVersion == r.GroupVersion().String() && slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource })
		})
	})
}

// ours are the resources of Cluster API and of Slipway among those that a cluster has.
func ours(found []*metav1.APIResourceList) []resource {
	var all []resource
	for _, list := range found {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !slices.ContainsFunc(groups, func(g string) bool { return gv.Group == g || strings.HasSuffix(gv.Group, "."+g) }) {
			continue
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				all = append(all, resource{GroupVersionResource: gv.WithResource(r.Name), namespaced: r.Namespaced})
			}
		}
	}
	slices.SortFunc(all, func(a, b resource) int { return strings.Compare(a.file(), b.file()) })
	return all
}

func (r resource) file() string { return r.GroupResource().String() + ".yaml" }

// list writes the objects of a resource, one file for each namespace.
func (c *collector) list(ctx context.Context, r resource) error {
	documents := map[string]*strings.Builder{}
	options := metav1.ListOptions{LabelSelector: r.selector, Limit: page}
	for {
		list, err := c.page(ctx, r, options)
		if err != nil {
			c.lacks("objects "+r.GroupResource().String(), err)
			break
		}
		for i := range list.Items {
			o := list.Items[i].Object
			if c.tooOld(o) {
				continue
			}
			data, err := yaml.Marshal(c.archive.redact.Object(o))
			if err != nil {
				return fmt.Errorf("encode an object of %s: %w", r.Resource, err)
			}
			namespace := list.Items[i].GetNamespace()
			if documents[namespace] == nil {
				documents[namespace] = &strings.Builder{}
			}
			documents[namespace].WriteString("---\n" + string(data))
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(documents)) {
		if err := c.put(folder(namespace)+r.file(), documents[namespace].String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) page(ctx context.Context, r resource, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if r.namespaced && c.Namespace != "" {
		return c.clients.dynamic.Resource(r.GroupVersionResource).Namespace(c.Namespace).List(ctx, options)
	}
	return c.clients.dynamic.Resource(r.GroupVersionResource).List(ctx, options)
}

// tooOld says whether it is an event of before what is asked for.
func (c *collector) tooOld(o map[string]any) bool {
	if o["kind"] != "Event" {
		return false
	}
	var last time.Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}} {
		text, _, _ := unstructured.NestedString(o, path...)
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(last) {
			last = at
		}
	}
	return !last.IsZero() && c.Now.Sub(last) > c.Since
}

func folder(namespace string) string {
	if namespace == "" {
		namespace = "_cluster"
	}
	return "objects/" + namespace + "/"
}
