package plan_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// A window that has closed matters until the hook has passed, and no longer.
func TestHoldsUntilTheHookHasPassed(t *testing.T) {
	type changes []func(*clusterv1.Cluster)
	created := func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "a", Kind: "b", Name: "c"}
	}
	upgrading := func(c *clusterv1.Cluster) {
		c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.35.4"}, {Version: "v1.36.3"}}}
	}
	pending := func(hooks string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: hooks}
		}
	}
	both := func(one, another func(*clusterv1.Cluster)) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { one(c); another(c) }
	}
	classed := func(c *clusterv1.Cluster) {
		c.Spec.Topology.ClassRef.Name, c.Spec.Topology.Version = "class", "v1.36.3"
	}
	deleted := func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: start} }
	passed := func(c *clusterv1.Cluster) {
		c.Annotations = map[string]string{runtimev1.OkToDeleteAnnotation: ""}
	}
	for hook, moments := range map[lifecyclev1.HookName]struct{ asked, not changes }{
		lifecyclev1.BeforeClusterCreate:       {changes{func(*clusterv1.Cluster) {}}, changes{created, deleted}},
		lifecyclev1.BeforeClusterUpgrade:      {changes{upgrading}, changes{created, both(upgrading, pending("AfterClusterUpgrade")), both(upgrading, deleted)}},
		lifecyclev1.BeforeControlPlaneUpgrade: {changes{both(upgrading, pending("AfterClusterUpgrade"))}, changes{pending("AfterClusterUpgrade,AfterControlPlaneUpgrade")}},
		lifecyclev1.AfterControlPlaneUpgrade:  {changes{pending("AfterClusterUpgrade,AfterControlPlaneUpgrade")}, changes{upgrading, pending("AfterClusterUpgrade")}},
		lifecyclev1.BeforeWorkersUpgrade:      {changes{pending("BeforeWorkersUpgrade")}, changes{pending("AfterWorkersUpgrade")}},
		lifecyclev1.AfterClusterUpgrade:       {changes{pending("AfterClusterUpgrade")}, changes{created}},
		lifecyclev1.BeforeClusterDelete:       {changes{both(classed, deleted)}, changes{created, deleted, both(classed, both(deleted, passed))}},
	} {
		run := begun(window("noon"), ended(lifecyclev1.OutcomeSucceeded))
		run.Spec.Steps, run.Spec.Hook, run.Spec.Request.ToKubernetesVersion = run.Spec.Steps[:1], hook, "v1.36.3"
		holds := func(change func(*clusterv1.Cluster), at time.Duration) (bool, string, time.Time) {
			cluster := &clusterv1.Cluster{}
			change(cluster)
			return plan.Holds(run, cluster, start.Add(at))
		}
		for i, change := range moments.asked {
			if held, message, closes := holds(change, 30*time.Minute); held || message != "" || !closes.Equal(start.Add(time.Hour)) {
				t.Errorf("%s, %d, in the window: %t, %q, until %s", hook, i, held, message, closes)
			}
			if held, message, opens := holds(change, time.Hour); !held || !strings.Contains(message, "step noon: the window closed") || !opens.Equal(start.Add(24*time.Hour)) {
				t.Errorf("%s, %d, after it: %t, %q, until %s", hook, i, held, message, opens)
			}
		}
		for i, change := range moments.not {
			if held, message, changes := holds(change, time.Hour); held || message != "" || !changes.IsZero() {
				t.Errorf("%s, %d, which has passed: %t, %q, until %s", hook, i, held, message, changes)
			}
		}
	}
	if held, message, changes := plan.Holds(begun(approval("go"), nil), &clusterv1.Cluster{}, start); !held || message == "" || !changes.IsZero() {
		t.Errorf("a run that waits: %t, %q, until %s", held, message, changes)
	}
}
