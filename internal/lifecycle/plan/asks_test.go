package plan_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// A Cluster without a topology asks by itself: for its creation while it is paused and
// nothing of it is there, for its deletion by an annotation.
func TestClustersWithoutATopologyAsk(t *testing.T) {
	paused := func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }
	annotated := func(c *clusterv1.Cluster) {
		c.Annotations = map[string]string{lifecyclev1.RequestDeletionAnnotation: ""}
	}
	for name, c := range map[string]struct {
		changes        []func(*clusterv1.Cluster)
		create, remove bool
	}{
		"nothing": {},
		"paused":  {changes: []func(*clusterv1.Cluster){paused}, create: true},
		"paused, with a topology": {changes: []func(*clusterv1.Cluster){paused, annotated, func(c *clusterv1.Cluster) {
			c.Spec.Topology.ClassRef.Name, c.Spec.Topology.Version = "class", "v1.36.3"
		}}},
		"paused, deleted": {changes: []func(*clusterv1.Cluster){paused, annotated, func(c *clusterv1.Cluster) {
			c.DeletionTimestamp = &metav1.Time{Time: start}
		}}},
		"paused, moved here": {changes: []func(*clusterv1.Cluster){paused, func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint.Host = "192.0.2.1"
		}}},
		"paused, made": {changes: []func(*clusterv1.Cluster){paused, func(c *clusterv1.Cluster) {
			c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		}}},
		"to be deleted":               {changes: []func(*clusterv1.Cluster){annotated}, remove: true},
		"to be deleted, and not made": {changes: []func(*clusterv1.Cluster){paused, annotated}, create: true, remove: true},
	} {
		cluster := &clusterv1.Cluster{}
		for _, change := range c.changes {
			change(cluster)
		}
		for _, hook := range lifecyclev1.Hooks() {
			want := hook == lifecyclev1.BeforeClusterCreate && c.create || hook == lifecyclev1.BeforeClusterDelete && c.remove
			if got := plan.Asks(hook, cluster); got != want {
				t.Errorf("%s: asks %s: %t", name, hook, got)
			}
		}
	}
}

// What a Cluster without a topology does not ask for any more is given up, whether its
// steps are done or not: an approval must not be left for the next time.
func TestWhatIsNotAskedForAnyMoreIsGivenUp(t *testing.T) {
	policy := func(enforcement lifecyclev1.Enforcement) *lifecyclev1.LifecyclePolicy {
		p := &lifecyclev1.LifecyclePolicy{Spec: lifecyclev1.LifecyclePolicySpec{Enforcement: enforcement}}
		for _, hook := range lifecyclev1.Hooks() {
			p.Spec.Hooks = append(p.Spec.Hooks, lifecyclev1.HookPolicy{Hook: hook, Steps: []lifecyclev1.Step{approval("go")}})
		}
		return p
	}
	for name, c := range map[string]struct {
		hook        lifecyclev1.HookName
		asks, done  bool
		enforcement lifecyclev1.Enforcement
		want        string
	}{
		"asked for":                {hook: lifecyclev1.BeforeClusterDelete, asks: true, enforcement: lifecyclev1.EnforcementAll},
		"asked for, done":          {hook: lifecyclev1.BeforeClusterDelete, asks: true, done: true, enforcement: lifecyclev1.EnforcementAll},
		"withdrawn":                {hook: lifecyclev1.BeforeClusterDelete, enforcement: lifecyclev1.EnforcementAll, want: "not asked for any more"},
		"withdrawn, done":          {hook: lifecyclev1.BeforeClusterDelete, done: true, enforcement: lifecyclev1.EnforcementAll, want: "not asked for any more"},
		"not held back any more":   {hook: lifecyclev1.BeforeClusterDelete, asks: true, enforcement: lifecyclev1.EnforcementTopology, want: "holds back no Clusters without a topology"},
		"creation":                 {hook: lifecyclev1.BeforeClusterCreate, asks: true, enforcement: lifecyclev1.EnforcementAll},
		"creation, let go without": {hook: lifecyclev1.BeforeClusterCreate, enforcement: lifecyclev1.EnforcementAll, want: "not paused any more"},
		"creation, done":           {hook: lifecyclev1.BeforeClusterCreate, done: true, enforcement: lifecyclev1.EnforcementAll},
	} {
		run := begun(approval("go"), nil)
		if c.done {
			run = begun(approval("go"), ended(lifecyclev1.OutcomeSucceeded))
			run.Spec.Steps = run.Spec.Steps[:1]
		}
		run.Spec.Hook = c.hook
		cluster := &clusterv1.Cluster{}
		if c.asks {
			cluster.Spec.Paused, cluster.Annotations = ptr.To(true), map[string]string{lifecyclev1.RequestDeletionAnnotation: ""}
		}
		got := plan.CancelReason(run, policy(c.enforcement), cluster, start)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if settled := plan.Settled(run, cluster, start); settled != (c.done && c.want == "") {
			t.Errorf("%s: settled %t", name, settled)
		}
	}
}

// The workload cluster of a Cluster that was never unpaused is not waited for.
func TestAClusterThatWaitsHasNoWorkload(t *testing.T) {
	run := begun(lifecyclev1.Step{Name: "save", Export: &lifecyclev1.ExportStep{}}, nil)
	run.Spec.Hook = lifecyclev1.BeforeClusterDelete
	cluster := &clusterv1.Cluster{}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "a", Kind: "b", Name: "c"}
	if reason := plan.NoWorkload(run, &run.Spec.Steps[0], cluster, start); reason != "" {
		t.Error(reason)
	}
	cluster.Spec.Paused = ptr.To(true)
	if reason := plan.NoWorkload(run, &run.Spec.Steps[0], cluster, start); !strings.Contains(reason, "never unpaused") {
		t.Errorf("got %q", reason)
	}
}
