package step_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// applyFixture is a Cluster with its own namespace in both API servers.
type applyFixture struct {
	env *step.Env
	in  step.Input
	// namespace in the management and in the workload cluster.
	namespace string
}

func newApplyFixture(t *testing.T, apiStep lifecyclev1.ApplyStep) *applyFixture {
	t.Helper()
	testenv.Skip(t)
	namespace := management.Namespace(t)
	if err := other.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	cluster := management.NewWorkloadCluster(t, namespace, other)
	in := testenv.NewStep(t, management.Client, cluster, lifecyclev1.AfterControlPlaneInitialized, lifecyclev1.Step{Name: "addons", Apply: &apiStep})
	return &applyFixture{
		env: newEnv(management.Client),
		in:  in, namespace: namespace,
	}
}

func configMaps(sources ...string) lifecyclev1.ApplyStep {
	var s lifecyclev1.ApplyStep
	for _, name := range sources {
		s.Sources = append(s.Sources, lifecyclev1.ManifestSource{Kind: "ConfigMap", Name: name})
	}
	return s
}

// source writes a ConfigMap; NAMESPACE and GROUP in its data are unique to the test.
func (f *applyFixture) source(t *testing.T, name string, data map[string]string) {
	t.Helper()
	for key, value := range data {
		data[key] = f.expand(value)
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Data: data}
	if err := management.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (f *applyFixture) secret(t *testing.T, name, value string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, StringData: map[string]string{"manifest": f.expand(value)}}
	if err := management.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (f *applyFixture) expand(value string) string {
	return strings.NewReplacer("NAMESPACE", f.namespace, "GROUP", f.namespace+".example.com").Replace(value)
}

// execute makes an attempt, as of a run that begins now.
func (f *applyFixture) execute(t *testing.T) (step.Result, error) {
	t.Helper()
	pin, err := step.Of(f.in.Step).(step.Pinner).Pin(t.Context(), f.env, f.in.Run, f.in.Step)
	if err != nil {
		t.Fatal(err)
	}
	f.in.Run.Spec.Pins = []lifecyclev1.Pin{{Step: f.in.Step.Name, Digest: pin}}
	return execute(t, f.env, f.in)
}

// TestManifestsArePinned: who may write a ConfigMap must not decide what a run that has
// begun applies with the rights of the cluster's administrator.
func TestManifestsArePinned(t *testing.T) {
	f := newApplyFixture(t, configMaps("addon"))
	f.source(t, "addon", map[string]string{"a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: NAMESPACE}\n"})
	if result, err := execute(t, f.env, f.in); err != nil || result.Done || f.configMap(t, f.namespace, "mine") != nil {
		t.Fatalf("before it is pinned: %+v, %v", result, err)
	}
	pin, err := step.Of(f.in.Step).(step.Pinner).Pin(t.Context(), f.env, f.in.Run, f.in.Step)
	if err != nil || pin == "" {
		t.Fatal(pin, err)
	}
	f.in.Run.Spec.Pins = []lifecyclev1.Pin{{Step: f.in.Step.Name, Digest: pin}}
	changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "addon"}, Data: map[string]string{
		"a": f.expand("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: NAMESPACE}\n"),
	}}
	if err := management.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	_, err = execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "have changed since the run began") || f.configMap(t, f.namespace, "theirs") != nil {
		t.Errorf("changed: %v", err)
	}
	// Somebody looked, and has it retried.
	if result, err := f.execute(t); err != nil || !result.Done || f.configMap(t, f.namespace, "theirs") == nil {
		t.Errorf("retried: %+v, %v", result, err)
	}
}

// finish executes the step until it no longer waits for definitions.
// What the engine may not read is pinned once it may, and does not fail the step before.
func TestWhatMayNotBeReadIsWaitedFor(t *testing.T) {
	f := newApplyFixture(t, configMaps("addon"))
	as := management.As("an-engine")
	own, err := rights.New(as)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := client.New(as, client.Options{Scheme: management.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	f.env = newEnv(own.Client(reader))
	f.source(t, "addon", map[string]string{"a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: NAMESPACE}\n"})
	result, err := f.execute(t)
	if pin := f.in.Run.Pin(f.in.Step.Name); pin != "" || result.Done || !step.IsUnreached(err) || !strings.Contains(err.Error(), "kubectl create rolebinding slipway-lifecycle-steps -n "+f.namespace) {
		t.Errorf("pinned %q, %+v, %v", pin, result, err)
	}
}

func (f *applyFixture) finish(t *testing.T) step.Result {
	t.Helper()
	for {
		result, err := f.execute(t)
		if err != nil {
			t.Fatal(err)
		}
		if result.Done {
			return result
		}
		if !strings.Contains(result.Message, "is established") {
			t.Fatalf("waits for %q", result.Message)
		}
	}
}

func (f *applyFixture) fails(t *testing.T, parts ...string) error {
	t.Helper()
	result, err := f.execute(t)
	if err == nil {
		t.Fatalf("got %+v, want an error", result)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), f.expand(part)) {
			t.Errorf("the error does not say %q: %v", f.expand(part), err)
		}
	}
	return err
}

// configMap reads a ConfigMap of the workload cluster; nil when there is none.
func (f *applyFixture) configMap(t *testing.T, namespace, name string) *corev1.ConfigMap {
	t.Helper()
	c := &corev1.ConfigMap{}
	err := other.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const widgets = `
apiVersion: GROUP/v1
kind: Widget
metadata: {name: one, namespace: NAMESPACE}
spec: {size: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: in-new, namespace: NAMESPACE-new}
---
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE-new}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.GROUP, creationTimestamp: null}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestNamespacesAndDefinitionsComeFirst(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	f.source(t, "m", map[string]string{"widgets.yaml": widgets})
	if got := f.finish(t).Message; got != "applied 4 objects" {
		t.Errorf("message %q", got)
	}
	if f.configMap(t, f.namespace+"-new", "in-new") == nil {
		t.Error("the ConfigMap in the new namespace is missing")
	}
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(schema.GroupVersionKind{Group: f.expand("GROUP"), Version: "v1", Kind: "Widget"})
	if err := other.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "one"}, widget); err != nil {
		t.Error(err)
	}
}

func TestApplyIsIdempotentAndOwnsItsFields(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	f.source(t, "m", map[string]string{"a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: NAMESPACE, uid: stale, resourceVersion: '1'}\ndata: {k: v}\n"})
	f.finish(t)
	first := f.configMap(t, f.namespace, "c")
	f.finish(t)
	second := f.configMap(t, f.namespace, "c")
	if first.ResourceVersion != second.ResourceVersion {
		t.Error("the second time changed the object")
	}
	if len(second.ManagedFields) != 1 || second.ManagedFields[0].Manager != "slipway-lifecycle-policy" || second.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managers: %v", second.ManagedFields)
	}
	if f.configMap(t, metav1.NamespaceDefault, "m") != nil || management.Client.Get(t.Context(), client.ObjectKeyFromObject(first), &corev1.ConfigMap{}) == nil {
		t.Error("the object is in the management cluster")
	}
}

func TestListsAndDocumentsOfAllKeysAreApplied(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	f.source(t, "m", map[string]string{
		"1.yaml": "# only a comment\n---\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NAMESPACE}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: NAMESPACE}}\n",
		"2.json": `{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"c","namespace":"NAMESPACE"}}]}`,
		"3.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAMESPACE-d}\n",
	})
	f.finish(t)
	for _, name := range []string{"a", "b", "c"} {
		if f.configMap(t, f.namespace, name) == nil {
			t.Errorf("%s was not applied", name)
		}
	}
	if f.configMap(t, metav1.NamespaceDefault, f.namespace+"-d") == nil {
		t.Error("an object without a namespace is not in default")
	}
}

func TestOnlyTheNamedKeyIsApplied(t *testing.T) {
	s := configMaps("m")
	s.Sources[0].Key = "b"
	f := newApplyFixture(t, s)
	f.source(t, "m", map[string]string{
		"a": "this: [is no manifest",
		"b": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: NAMESPACE}\n",
	})
	if got := f.finish(t).Message; got != "applied 1 objects" {
		t.Errorf("message %q", got)
	}
}

func TestAConflictNamesManagerAndField(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "c"}, Data: map[string]string{"k": "theirs"}}
	if err := other.Client.Create(t.Context(), theirs, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	f.source(t, "m", map[string]string{"a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: NAMESPACE}\ndata: {k: ours}\n"})
	err := f.fails(t, "ConfigMap NAMESPACE/c", "ConfigMap m, key a, document 1", `field .data.k: conflict with "somebody"`, "force: true")
	if !step.IsTerminal(err) {
		t.Error("a conflict is tried again")
	}
	if got := f.configMap(t, f.namespace, "c").Data["k"]; got != "theirs" {
		t.Errorf("k is %q", got)
	}
	f.in.Step.Apply.Force = ptr.To(true)
	f.finish(t)
	if got := f.configMap(t, f.namespace, "c").Data["k"]; got != "ours" {
		t.Errorf("forced, k is %q", got)
	}
}

func TestAllRefusedObjectsAreNamed(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	f.source(t, "m", map[string]string{"a": `
{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad, namespace: NAMESPACE}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: NAMESPACE}}
---
{apiVersion: example.com/v1, kind: Unknown, metadata: {name: x}}
`})
	_ = f.fails(t, "ConfigMap NAMESPACE/Bad", "document 1", "metadata.name", "Unknown x", "document 3", "CustomResourceDefinition missing?")
	if f.configMap(t, f.namespace, "good") == nil {
		t.Error("the good object was not applied")
	}
}

func TestAMissingSourceIsNamed(t *testing.T) {
	f := newApplyFixture(t, configMaps("absent"))
	_ = f.fails(t, "apply.sources[0]", "there is no ConfigMap NAMESPACE/absent")
}

func TestAMissingKeyIsNamed(t *testing.T) {
	s := configMaps("m")
	s.Sources[0].Key = "x"
	f := newApplyFixture(t, s)
	f.source(t, "m", map[string]string{"a": ""})
	_ = f.fails(t, "apply.sources[0].key", `no key "x"`, `"a"`)
}

func TestInvalidManifestsNameTheirDocument(t *testing.T) {
	for name, c := range map[string]struct{ manifest, want string }{
		"syntax":         {"---\na: 1\nb: [\n", "document 1"},
		"duplicate key":  {"apiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: {name: a}\n", "document 1"},
		"later document": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, metadata: {name: b}}\n", "document 2: apiVersion and kind must be set"},
		"no name":        {"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a}}", "metadata.name must be set"},
		"no object":      {"- a\n- b\n", "is no object"},
		"twice":          {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", "ConfigMap a is defined twice: in ConfigMap m, key a, document 1, and in ConfigMap m, key a, document 2"},
		"empty":          {"# nothing\n", "there is no object"},
		"bad item":       {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap}]}", "items[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newApplyFixture(t, configMaps("m"))
			f.source(t, "m", map[string]string{"a": c.manifest})
			_ = f.fails(t, "apply.sources", c.want)
		})
	}
}

func TestErrorsDoNotQuoteSecrets(t *testing.T) {
	for name, manifest := range map[string]string{
		"syntax":  "apiVersion: v1\nkind: Secret\nhunter2: {hunter2\n",
		"key":     "hunter2: 1\nhunter2: 2\n",
		"refused": "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: NAMESPACE}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2, 'hunter2 ': x}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newApplyFixture(t, lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "Secret", Name: "m"}}})
			f.secret(t, "m", manifest)
			if err := f.fails(t, "Secret m, key manifest, document 1"); strings.Contains(strings.ReplaceAll(err.Error(), "data[hunter2 ]", ""), "hunter2") {
				t.Errorf("the error quotes the Secret: %v", err)
			}
		})
	}
}

func TestSecretsAreSources(t *testing.T) {
	f := newApplyFixture(t, lifecyclev1.ApplyStep{Sources: []lifecyclev1.ManifestSource{{Kind: "Secret", Name: "m"}}})
	f.secret(t, "m", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: NAMESPACE}\nstringData: {k: v}\n")
	f.finish(t)
	s := &corev1.Secret{}
	if err := other.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "s"}, s); err != nil || string(s.Data["k"]) != "v" {
		t.Errorf("%v, %v", s.Data, err)
	}
}

func TestAuditChangesNothing(t *testing.T) {
	f := newApplyFixture(t, configMaps("m", "n"))
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	f.source(t, "m", map[string]string{"widgets.yaml": widgets})
	f.source(t, "n", map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NAMESPACE}}"})
	result, err := f.execute(t)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Done || !strings.Contains(result.Message, "would apply 5 objects; 2 of them are not checked") {
		t.Errorf("got %+v", result)
	}
	if f.configMap(t, f.namespace, "a") != nil {
		t.Error("Audit applied an object")
	}
	if err := other.Client.Get(t.Context(), client.ObjectKey{Name: f.namespace + "-new"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("Audit applied a Namespace: %v", err)
	}
}

func TestAuditFindsWhatWouldBeRefused(t *testing.T) {
	f := newApplyFixture(t, configMaps("m"))
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	f.source(t, "m", map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad, namespace: NAMESPACE}}"})
	_ = f.fails(t, "ConfigMap NAMESPACE/Bad")
}

func TestFieldManagersFitAndDiffer(t *testing.T) {
	long := strings.Repeat("p", 240)
	a, b := step.FieldManager(long+"a"), step.FieldManager(long+"b")
	if len(a) > 128 || a == b {
		t.Errorf("%q and %q", a, b)
	}
	// What was applied under these names is still owned by them.
	for got, want := range map[string]string{
		step.FieldManager("cni"): "slipway-lifecycle-cni",
		a:                        "slipway-lifecycle-ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp-1297930241",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
