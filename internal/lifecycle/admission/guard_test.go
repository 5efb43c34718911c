package admission_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

func guarded(t *testing.T, name string) bool {
	t.Helper()
	namespace := &corev1.Namespace{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
		t.Fatal(err)
	}
	_, label := namespace.Labels[lifecyclev1.DeletionGuardLabel]
	return label
}

// TestNoPolicyWithoutItsGuard: when a policy that may hold a deletion back is stored, its
// Namespace has the label already. Nothing else sets it.
func TestNoPolicyWithoutItsGuard(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	gate := newPolicy(namespace, "gate", lifecyclev1.Step{Name: "ask", Approval: &lifecyclev1.ApprovalStep{}})
	upgrades := gate.DeepCopy()
	upgrades.Name = "upgrades"
	gate.Spec.Hooks[0].Hook = lifecyclev1.BeforeClusterDelete
	audit := gate.DeepCopy()
	audit.Name, audit.Spec.Mode = "audit", lifecyclev1.ModeAudit
	faulty := gate.DeepCopy()
	faulty.Spec.Hooks[0].Steps[0] = lifecyclev1.Step{Name: "w", Window: &lifecyclev1.WindowStep{Schedule: "now and then", DurationSeconds: 60}}

	if err := env.Client.Create(t.Context(), gate.DeepCopy(), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), faulty); !apierrors.IsInvalid(err) {
		t.Fatalf("the faulty policy answers %v", err)
	}
	for _, policy := range []*lifecyclev1.LifecyclePolicy{upgrades, audit} {
		if err := env.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	if guarded(t, namespace) {
		t.Fatal("the Namespace is guarded without a policy that may hold a deletion back")
	}
	before := audit.DeepCopy()
	audit.Spec.Mode = lifecyclev1.ModeEnforce
	if err := env.Client.Patch(t.Context(), audit, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if !guarded(t, namespace) {
		t.Error("a policy that is enforced from now on does not guard its Namespace")
	}
	other := env.Namespace(t)
	gate.Namespace = other
	if err := env.Client.Create(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	if !guarded(t, other) {
		t.Error("a policy was stored without its guard")
	}
}

// TestTheGuardIsTheEnginesAlone: the engine changes nothing else of a Namespace, and nobody
// else takes the guard away.
func TestTheGuardIsTheEnginesAlone(t *testing.T) {
	testenv.Skip(t)
	name := env.Namespace(t)
	patch := func(c client.Client, data string) error {
		return c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(data)), client.DryRunAll)
	}
	set := func(data string) {
		t.Helper()
		if err := env.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(data))); err != nil {
			t.Fatal(err)
		}
	}
	const (
		guard   = `"lifecycle.slipway.dev/deletion-guard"`
		unused  = `"lifecycle.slipway.dev/deletion-guard-unused-since"`
		removed = `{"metadata":{"labels":{` + guard + `:null}}}`
	)
	set(`{"metadata":{"labels":{` + guard + `:"","a":"b"},"annotations":{"c":"d"}}}`)
	// The API server takes a moment to learn of the policy.
	poll.Until(t, "the engine cannot label a Namespace", func() error {
		if err := patch(engineClient, `{"metadata":{"labels":{"e":"f"}}}`); !apierrors.IsForbidden(err) {
			return fmt.Errorf("want it refused, got %w", err)
		}
		return nil
	})
	for what, data := range map[string]string{
		"sets a label":             `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`,
		"changes a label":          `{"metadata":{"labels":{"a":"c"}}}`,
		"removes a label":          `{"metadata":{"labels":{"a":null}}}`,
		"sets an annotation":       `{"metadata":{"annotations":{"e":"f"}}}`,
		"changes an annotation":    `{"metadata":{"annotations":{"c":"e"}}}`,
		"removes an annotation":    `{"metadata":{"annotations":{"c":null}}}`,
		"sets a finalizer":         `{"metadata":{"finalizers":["example.com/stay"]}}`,
		"sets an owner":            `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"a","uid":"b"}]}}`,
		"all of it with the guard": `{"metadata":{"labels":{` + guard + `:null,"e":"f"}}}`,
	} {
		if err := patch(engineClient, data); !apierrors.IsForbidden(err) {
			t.Errorf("the engine %s of a Namespace: %v", what, err)
		}
	}
	for what, data := range map[string]string{
		"removes the guard": removed, "sets the record": `{"metadata":{"annotations":{` + unused + `:"2026-03-01T00:00:00Z"}}}`,
	} {
		if err := patch(engineClient, data); err != nil {
			t.Errorf("the engine %s: %v", what, err)
		}
	}
	if err := patch(env.Client, removed); !apierrors.IsForbidden(err) {
		t.Errorf("an administrator removes the guard: %v", err)
	}
	// A tenant gives ServiceAccounts of the namespace the names and rights of its choice.
	namesake := user(t, name, "system:serviceaccount:"+name+":slipway-lifecycle", allow("", "namespaces", "get", "patch"))
	if err := patch(namesake, `{"metadata":{"annotations":{`+unused+`:"2026-03-01T00:00:00Z"}}}`); err != nil {
		t.Errorf("it may not patch its Namespace: %v", err)
	}
	if err := patch(namesake, removed); !apierrors.IsForbidden(err) {
		t.Errorf("a ServiceAccount of the same name removes the guard: %v", err)
	}
	namespace := &corev1.Namespace{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
		t.Fatal(err)
	}
	delete(namespace.Labels, lifecyclev1.DeletionGuardLabel)
	if err := env.Client.Status().Update(t.Context(), namespace, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the guard is removed by the status: %v", err)
	}
	if err := patch(env.Client, `{"metadata":{"labels":{"e":"f"}}}`); err != nil {
		t.Errorf("nobody can label a guarded Namespace: %v", err)
	}
}
