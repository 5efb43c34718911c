package up

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/plane/internal/supervisor/fakeplane"
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

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
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
	if file.Clusters[0].GetLabels()[clusters.NetworkLabel] != "flannel" {
		t.Errorf("the default cluster is not selected by the set: labels %v", file.Clusters[0].GetLabels())
	}
}

// env is a real API server: who owns which field is its business.
var env *testenv.Env

func TestMain(m *testing.M) {
	fakeplane.Act()
	os.Exit(testenv.Main(m, clientgoscheme.AddToScheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	testenv.Skip(t)
	return env.Client
}

func newApplier(t *testing.T) *applier {
	t.Helper()
	applied, err := readApplied(filepath.Join(t.TempDir(), appliedFile))
	if err != nil {
		t.Fatal(err)
	}
	return &applier{client: newClient(t), applied: applied}
}

// restarted is the applier of the next command.
func (a *applier) restarted(t *testing.T) *applier {
	t.Helper()
	applied, err := readApplied(a.applied.path)
	if err != nil {
		t.Fatal(err)
	}
	return &applier{client: a.client, applied: applied, force: a.force}
}

func settingsOf(name string, data map[string]any) *unstructured.Unstructured {
	o := object("v1", "ConfigMap", name)
	o.Object["data"] = data
	return o
}

func live(t *testing.T, c client.Client, name string) *corev1.ConfigMap {
	t.Helper()
	m := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// edit changes an object as `kubectl edit` does.
func edit(t *testing.T, c client.Client, name string, change func(*corev1.ConfigMap)) {
	t.Helper()
	m := live(t, c, name)
	change(m)
	if err := c.Update(t.Context(), m, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

func TestApply(t *testing.T) {
	a := newApplier(t)
	if err := a.apply(t.Context(), settingsOf("m", map[string]any{"a": "1"})); err != nil {
		t.Fatal(err)
	}
	first := live(t, a.client, "m")
	if err := a.restarted(t).apply(t.Context(), settingsOf("m", map[string]any{"a": "1"})); err != nil {
		t.Fatal(err)
	}
	if again := live(t, a.client, "m"); again.ResourceVersion != first.ResourceVersion {
		t.Error("the second time something was written")
	}
	if err := a.apply(t.Context(), settingsOf("m", map[string]any{"a": "2"})); err != nil || live(t, a.client, "m").Data["a"] != "2" {
		t.Errorf("a change of ours: %v", err)
	}
	if err := a.apply(t.Context(), object("v1", "Namespace", "n")); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Namespace{}); err != nil {
		t.Errorf("an object without a scope got one: %v", err)
	}
	if err := a.apply(t.Context(), object("example.com/v1", "Nope", "x")); err == nil || !strings.Contains(err.Error(), "check apiVersion and kind") {
		t.Errorf("unknown kind: %v", err)
	}
	if err := a.apply(t.Context(), settingsOf("Not A Name", nil)); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid object: %v", err)
	}
}

func TestWhatOthersChangedStays(t *testing.T) {
	ours := map[string]any{"class": "slipway", "kept": "1"}
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		next   map[string]any
		left   string
		want   map[string]string
	}{
		"another value": {
			func(m *corev1.ConfigMap) { m.Data["class"] = "mine" }, ours,
			"kubectl-edit", map[string]string{"class": "mine", "kept": "1"},
		},
		"another value, and something new from us": {
			func(m *corev1.ConfigMap) { m.Data["class"] = "mine" }, map[string]any{"class": "slipway", "kept": "2"},
			".data.class", map[string]string{"class": "mine", "kept": "1"},
		},
		"a field taken away": {
			func(m *corev1.ConfigMap) { delete(m.Data, "class") }, ours,
			"lost fields", map[string]string{"kept": "1"},
		},
		"a field of their own": {
			func(m *corev1.ConfigMap) { m.Data["theirs"] = "x" }, map[string]any{"class": "slipway", "kept": "2"},
			"", map[string]string{"class": "slipway", "kept": "2", "theirs": "x"},
		},
		"the value that we want next": {
			func(m *corev1.ConfigMap) { m.Data["kept"] = "2" }, map[string]any{"class": "slipway", "kept": "2"},
			"", map[string]string{"class": "slipway", "kept": "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplier(t)
			id := fmt.Sprintf("m-%x", sha256.Sum224([]byte(name)))
			if err := a.apply(t.Context(), settingsOf(id, ours)); err != nil {
				t.Fatal(err)
			}
			edit(t, a.client, id, tc.change)
			next := a.restarted(t)
			err := next.apply(t.Context(), settingsOf(id, tc.next))
			var changed *ChangedByOthersError
			if tc.left == "" && err != nil || tc.left != "" && (!errors.As(err, &changed) || !strings.Contains(err.Error(), tc.left)) {
				t.Errorf("apply = %v, want %q", err, tc.left)
			}
			if got := live(t, a.client, id).Data; !maps.Equal(got, tc.want) {
				t.Errorf("left %v, want %v", got, tc.want)
			}
			next.force = true
			if err := next.apply(t.Context(), settingsOf(id, tc.next)); err != nil {
				t.Fatal(err)
			}
			for key, want := range tc.next {
				if got := live(t, a.client, id).Data[key]; got != want {
					t.Errorf("by force %s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

func TestDefaultClusterIsLeftAloneOnceThere(t *testing.T) {
	c := newClient(t)
	for _, keep := range []bool{true, false} {
		s := newSession(t)
		s.Options.KeepExisting, s.client = keep, c
		id := fmt.Sprintf("existing-%t", keep)
		for _, replicas := range []string{"3", "2"} {
			given := settingsOf(id, map[string]any{"replicas": replicas})
			given.SetNamespace(Namespace)
			if err := s.applyUser(t.Context(), given); err != nil {
				t.Fatal(err)
			}
		}
		if kept := live(t, c, id).Data["replicas"] != "2"; kept != keep {
			t.Errorf("KeepExisting=%t left %v", keep, live(t, c, id).Data)
		}
	}
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
