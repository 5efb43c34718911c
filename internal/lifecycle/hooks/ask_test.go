package hooks_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// newBare makes a Cluster without a topology, and a policy that guards it.
func newBare(t *testing.T, namespace string, do func(*clusterv1.Cluster)) *clusterv1.Cluster {
	t.Helper()
	newPolicy(t, namespace, "guard", func(s *lifecyclev1.LifecyclePolicySpec) { s.Enforcement = lifecyclev1.EnforcementAll },
		lifecyclev1.BeforeClusterCreate, lifecyclev1.BeforeClusterDelete)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Plain", Name: "bare"}
	do(cluster)
	if err := env.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// ask reconciles, and returns the hooks of the runs that there are then.
func ask(t *testing.T, cluster *clusterv1.Cluster) (ctrl.Result, map[lifecyclev1.HookName]int) {
	t.Helper()
	handler := &hooks.Handler{Client: env.Client, APIReader: env.Client, Clock: clock.RealClock{}}
	result, err := (&hooks.AskReconciler{Handler: handler}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)})
	if err != nil {
		t.Fatal(err)
	}
	begun := map[lifecyclev1.HookName]int{}
	for _, run := range runs(t, cluster.Namespace) {
		begun[run.Spec.Hook]++
	}
	return result, begun
}

// enforce has admission ask about the Clusters of a namespace.
func enforce(t *testing.T, namespace string) {
	t.Helper()
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"lifecycle.slipway.dev/enforcement":"All"}}}`))
	if err := env.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, label); err != nil {
		t.Fatal(err)
	}
}

func requested(c *clusterv1.Cluster) {
	c.Annotations = map[string]string{lifecyclev1.RequestDeletionAnnotation: "why"}
}

// In a namespace without the label nobody checks who asks for a deletion, so that whoever
// may patch a Cluster would have its steps executed.
func TestNothingBeginsWhereNobodyChecksWhoAsks(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	cluster := newBare(t, namespace, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true); requested(c) })
	if result, begun := ask(t, cluster); len(begun) > 0 || result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
		t.Errorf("without the label: runs of %v, looks again after %s", begun, result.RequeueAfter)
	}
	enforce(t, namespace)
	result, begun := ask(t, cluster)
	if begun[lifecyclev1.BeforeClusterCreate] != 1 || begun[lifecyclev1.BeforeClusterDelete] != 1 || result.RequeueAfter != 0 {
		t.Errorf("with the label: runs of %v, looks again after %s", begun, result.RequeueAfter)
	}
}

// clusterctl move makes a Cluster, paused, and then its runs: it fails on one that was
// made in between, which it may not change.
func TestNothingBeginsWhileAClusterIsMovedHere(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	enforce(t, namespace)
	cluster := newBare(t, namespace, func(c *clusterv1.Cluster) {
		c.Spec.Paused, c.Spec.ControlPlaneEndpoint = ptr.To(true), clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
		requested(c)
	})
	if result, begun := ask(t, cluster); len(begun) > 0 || result.RequeueAfter != 0 {
		t.Errorf("while it is paused: runs of %v, looks again after %s", begun, result.RequeueAfter)
	}
	change(t, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	if _, begun := ask(t, cluster); len(begun) != 1 || begun[lifecyclev1.BeforeClusterDelete] != 1 {
		t.Errorf("once it is unpaused: runs of %v", begun)
	}
}
