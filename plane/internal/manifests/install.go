package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

const (
	// hashAnnotation holds a digest of what was applied last.
	hashAnnotation = "slipway.dev/applied-hash"
	fieldManager   = "slipway-plane"

	// parallel bounds the applies under way; the API server is CPU bound on
	// the schemas of CRDs.
	parallel = 8
)

// Installer applies objects to an API server.
type Installer struct {
	// Config is an administrator's client configuration.
	Config *rest.Config
	// WebhookURL is the base URL of the webhook server, without a path.
	WebhookURL string
	// OwnURLs are the base URLs of the webhook servers of providers that run
	// elsewhere, by the provider's label.
	OwnURLs map[string]string
	// CABundle verifies the webhook servers, PEM.
	CABundle []byte
}

// Result counts what an installation did.
type Result struct{ Applied, Unchanged int }

// Install applies objs and returns when all CRDs among them are served. It is
// idempotent and may be repeated after a failure.
func (in *Installer) Install(ctx context.Context, objs []Object) (Result, error) {
	config := rest.CopyConfig(in.Config)
	config.QPS = -1
	run := &installation{hooks: webhooks{base: in.WebhookURL, own: in.OwnURLs, ca: in.CABundle}}
	var err error
	if run.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return Result{}, fmt.Errorf("client: %w", err)
	}
	if run.metadata, err = metadata.NewForConfig(config); err != nil {
		return Result{}, fmt.Errorf("metadata client: %w", err)
	}
	for _, stage := range stages(objs) {
		if err := run.apply(ctx, stage); err != nil {
			return run.result, err
		}
		if err := waitEstablished(ctx, config, stage); err != nil {
			return run.result, err
		}
	}
	return run.result, nil
}

// stages splits objs into what needs nothing else, and what needs a CRD or a
// namespace of the first stage.
func stages(objs []Object) [][]Object {
	var first, second []Object
	for _, o := range objs {
		if o.Namespace == "" {
			first = append(first, o)
		} else {
			second = append(second, o)
		}
	}
	return [][]Object{first, second}
}

type installation struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	hooks    webhooks

	mu     sync.Mutex
	result Result
}

func (run *installation) apply(ctx context.Context, objs []Object) error {
	present, err := run.present(ctx, objs)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range objs {
		o := &objs[i]
		hash := run.hooks.hash(o)
		if present[o.String()] == hash {
			run.count(func(r *Result) { r.Unchanged++ })
			continue
		}
		group.Go(func() error {
			if err := run.applyOne(ctx, o, hash); err != nil {
				return fmt.Errorf("apply %s: %w", o, err)
			}
			run.count(func(r *Result) { r.Applied++ })
			return nil
		})
	}
	return group.Wait()
}

func (run *installation) count(f func(*Result)) {
	run.mu.Lock()
	defer run.mu.Unlock()
	f(&run.result)
}

// present returns the hashes of the objects that exist, by Object.String. It
// takes one small request for each resource, not for each object.
func (run *installation) present(ctx context.Context, objs []Object) (map[string]string, error) {
	hashes := map[string]string{}
	listed := map[schema.GroupVersionResource]bool{}
	for _, o := range objs {
		if listed[o.Resource] {
			continue
		}
		listed[o.Resource] = true
		list, err := run.metadata.Resource(o.Resource).List(ctx, metav1.ListOptions{LabelSelector: selector(o.Resource)})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", o.Resource.Resource, err)
		}
		for _, item := range list.Items {
			found := Object{Resource: o.Resource, Namespace: item.Namespace, Name: item.Name}
			hashes[found.String()] = item.Annotations[hashAnnotation]
		}
	}
	return hashes, nil
}

// selector keeps other people's objects out of the lists. clusterctl labels its
// own CRD differently, hence CRDs are not filtered.
func selector(gvr schema.GroupVersionResource) string {
	if gvr == resources["CustomResourceDefinition"] {
		return ""
	}
	return clusterctlv1.ClusterctlLabel
}

func (run *installation) applyOne(ctx context.Context, o *Object, hash string) error {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(o.Raw, &u.Object); err != nil {
		return err
	}
	if err := run.hooks.fill(o.Mount, u); err != nil {
		return err
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hashAnnotation] = hash
	u.SetAnnotations(annotations)
	_, err := run.dynamic.Resource(o.Resource).Namespace(o.Namespace).
		Apply(ctx, o.Name, u, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}
