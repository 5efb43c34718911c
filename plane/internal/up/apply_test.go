package up

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestDecode(t *testing.T) {
	files := fstest.MapFS{
		"two.yaml": {Data: []byte("# first\n---\nkind: A\nmetadata: {name: a}\n---\n---\nkind: B\nmetadata: {name: b}\n")},
		"bad.yaml": {Data: []byte("kind: [")},
	}
	objects, err := decode(files, "two.yaml")
	if err != nil || len(objects) != 2 || objects[0].GetName() != "a" || objects[1].GetKind() != "B" {
		t.Errorf("got %v, %v", objects, err)
	}
	for _, name := range []string{"bad.yaml", "none.yaml"} {
		if _, err := decode(files, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("decode(%s) = %v, want an error that names it", name, err)
		}
	}
}

// The pod network reaches clusters only if set, label and ConfigMap agree.
func TestLocalObjectsFitTogether(t *testing.T) {
	objects, err := localObjects()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
		if o.GetName() == "" || o.GetAPIVersion() == "" {
			t.Errorf("object without name or apiVersion: %v", o)
		}
	}
	if kinds["ClusterClass"] != 1 || kinds["ClusterResourceSet"] != 1 || kinds["ConfigMap"] != 1 {
		t.Fatalf("kinds %v", kinds)
	}
	manifest, set := objects[len(objects)-2], objects[len(objects)-1]
	data, _ := manifest.Object["data"].(map[string]any)
	if text, _ := data["flannel.yaml"].(string); !strings.Contains(text, "kind: DaemonSet") {
		t.Error("the ConfigMap does not hold the DaemonSet of flannel")
	}
	spec, _ := set.Object["spec"].(map[string]any)
	resources, _ := spec["resources"].([]any)
	if resource, _ := resources[0].(map[string]any); resource["name"] != manifest.GetName() {
		t.Errorf("the set names %v, the ConfigMap is %s", resource["name"], manifest.GetName())
	}
	file, err := DefaultFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Clusters[0].GetLabels()[cniLabel] != "flannel" {
		t.Errorf("the default cluster is not selected by the set: labels %v", file.Clusters[0].GetLabels())
	}
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return fake.NewClientBuilder().WithRESTMapper(mapper).Build()
}

func TestApply(t *testing.T) {
	c := newClient(t)
	for range 2 {
		if err := apply(t.Context(), c, object("v1", "ConfigMap", "m")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: "m"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("an object without a namespace belongs into %s: %v", Namespace, err)
	}
	if err := apply(t.Context(), c, object("v1", "Namespace", "n")); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Namespace{}); err != nil {
		t.Errorf("an object without a scope got one: %v", err)
	}
	if err := apply(t.Context(), c, object("example.com/v1", "Nope", "x")); err == nil || !strings.Contains(err.Error(), "check apiVersion and kind") {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestDefaultClusterIsLeftAloneOnceThere(t *testing.T) {
	c := newClient(t)
	existing := &corev1.ConfigMap{Data: map[string]string{"replicas": "scaled by the user"}}
	existing.Namespace, existing.Name = Namespace, "m"
	if err := c.Create(t.Context(), existing); err != nil {
		t.Fatal(err)
	}
	given := object("v1", "ConfigMap", "m")
	given.SetNamespace(Namespace)
	given.Object["data"] = map[string]any{"replicas": "2"}
	for _, keep := range []bool{true, false} {
		s := &Session{Options: Options{KeepExisting: keep}, client: watchless{c}}
		if err := s.applyUser(t.Context(), given); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(existing), existing); err != nil {
			t.Fatal(err)
		}
		if kept := existing.Data["replicas"] != "2"; kept != keep {
			t.Errorf("KeepExisting=%t left %v", keep, existing.Data)
		}
	}
}

// watchless is a client for code that does not watch.
type watchless struct{ client.Client }

func (w watchless) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.ErrUnsupported
}

func TestRetryWebhooks(t *testing.T) {
	resource := schema.GroupResource{Resource: "clusters"}
	for name, tc := range map[string]struct {
		err   error
		calls int
	}{
		"a webhook that is not up":   {apierrors.NewInternalError(errors.New("connection refused")), 2},
		"a conflict":                 {apierrors.NewConflict(resource, "a", errors.New("x")), 2},
		"a refusal is final":         {apierrors.NewForbidden(resource, "a", errors.New("version")), 1},
		"an invalid object is final": {apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "a", nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := retryWebhooks(t.Context(), func() error {
				if calls++; calls == 1 {
					return tc.err
				}
				return nil
			})
			if calls != tc.calls || (err == nil) != (tc.calls == 2) {
				t.Errorf("%d calls, %v; want %d", calls, err, tc.calls)
			}
		})
	}
}
