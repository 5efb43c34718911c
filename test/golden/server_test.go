package golden

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// clusterWide are the kinds without a namespace.
var clusterWide = map[string]bool{"Namespace": true, "ExtensionConfig": true, "HostExtensionConfig": true, "AgentRelease": true, "CertificateSigningRequest": true}

// objects are what an API server that can only be read has, by kind.
type objects struct {
	versions map[schema.GroupVersion][]string
	items    map[schema.GroupVersionKind][]*unstructured.Unstructured
}

// serve serves the objects of a file until the test ends. It returns a kubeconfig.
func serve(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		all = append(all, object)
	}
	return serveObjects(t, all)
}

// serveObjects is serve of objects that a test made.
func serveObjects(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	o := &objects{versions: map[schema.GroupVersion][]string{}, items: map[schema.GroupVersionKind][]*unstructured.Unstructured{}}
	for _, object := range all {
		kind := object.GroupVersionKind()
		if o.items[kind] == nil {
			o.versions[kind.GroupVersion()] = append(o.versions[kind.GroupVersion()], kind.Kind)
		}
		object.SetResourceVersion("1")
		o.items[kind] = append(o.items[kind], object)
	}
	server := httptest.NewServer(o)
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "%s"}}], users: [{name: u, user: {}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// resource is the plural of a kind.
func resource(kind string) string {
	kind = strings.ToLower(kind)
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return stem + "ies"
	}
	return kind + "s"
}

// ServeHTTP answers discovery, lists, gets and watches, and nothing else.
func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method != http.MethodGet:
		answer = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: path[len(path)-1]}, r.Method).ErrStatus
	case len(path) == 1 && path[0] == "api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case len(path) == 1 && path[0] == "apis":
		answer = o.groups()
	case path[0] == "apis" && len(path) == 2:
		answer = o.group(path[1])
	case path[0] == "api":
		answer = o.resources(schema.GroupVersion{Version: path[1]}, path[2:], r)
	case path[0] == "apis":
		answer = o.resources(schema.GroupVersion{Group: path[1], Version: path[2]}, path[3:], r)
	default:
		answer = notFound(r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	if watch, ok := answer.(watched); ok {
		watch.wait(w)
		return
	}
	if status, ok := answer.(metav1.Status); ok {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// watched is a watch, in which nothing happens.
type watched struct{ *http.Request }

func (r watched) wait(w http.ResponseWriter) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		w.WriteHeader(http.StatusBadRequest) // so that it is listed
		return
	}
	w.WriteHeader(http.StatusOK)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	<-r.Context().Done()
}

func notFound(name string) metav1.Status {
	return apierrors.NewNotFound(schema.GroupResource{}, name).ErrStatus
}

func (o *objects) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for version := range o.versions {
		if version.Group != "" {
			list.Groups = append(list.Groups, o.group(version.Group))
		}
	}
	return list
}

func (o *objects) group(name string) metav1.APIGroup {
	group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name}
	for version := range o.versions {
		if version.Group == name {
			group.PreferredVersion = metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
			group.Versions = append(group.Versions, group.PreferredVersion)
		}
	}
	return group
}

// resources answers below a version: which there are, a list or an object.
func (o *objects) resources(version schema.GroupVersion, path []string, r *http.Request) any {
	if len(path) == 0 {
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.String()}
		for _, kind := range o.versions[version] {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource(kind), Kind: kind, Namespaced: !clusterWide[kind], Verbs: metav1.Verbs{"get", "list"}})
		}
		return list
	}
	namespace := ""
	if path[0] == "namespaces" && len(path) > 2 {
		namespace, path = path[1], path[2:]
	}
	for _, kind := range o.versions[version] {
		if resource(kind) != path[0] {
			continue
		}
		if r.URL.Query().Get("watch") != "" {
			return watched{r}
		}
		all := o.items[version.WithKind(kind)]
		if len(path) == 1 {
			return list(version.WithKind(kind), all, namespace, r)
		}
		for _, object := range all {
			if object.GetName() == path[1] && object.GetNamespace() == namespace {
				return object.Object
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: version.Group, Resource: path[0]}, path[len(path)-1]).ErrStatus
}

func list(kind schema.GroupVersionKind, all []*unstructured.Unstructured, namespace string, r *http.Request) any {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return apierrors.NewBadRequest(err.Error()).ErrStatus
	}
	items := []any{}
	for _, object := range all {
		if selector.Matches(labels.Set(object.GetLabels())) && (namespace == "" || object.GetNamespace() == namespace) {
			items = append(items, object.Object)
		}
	}
	return map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
}
