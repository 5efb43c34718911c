package plan

import (
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Holds is Blocks for who is not asked by Cluster API: the windows of a run that has
// succeeded matter only until its hook has passed. Changes is when the answer changes
// by itself, because a window opens or closes; zero when it does not.
func Holds(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) (holds bool, message string, changes time.Time) {
	if Phase(run) == lifecyclev1.RunSucceeded && !asked(run, cluster) {
		return false, "", time.Time{}
	}
	holds, message = Blocks(run, now)
	if Current(run) == nil {
		changes = nextChange(run, now)
	}
	return holds, message, changes
}

// Open says whether a policy still has a say about a run: its steps have not all passed,
// or a window that has closed keeps its hook from passing.
func Open(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) bool {
	if !Finished(run) {
		return true
	}
	holds, _, _ := Holds(run, cluster, now)
	return holds
}

// Settled says whether nothing will happen in a run any more, as far as its Cluster tells.
func Settled(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster, now time.Time) bool {
	if !Finished(run) {
		return false
	}
	holds, _, changes := Holds(run, cluster, now)
	return !holds && (run.Spec.Cancelled != "" || changes.IsZero() && calledOff(run, cluster) == "" && withdrawn(run, cluster) == "")
}

// asked says whether Cluster API goes on asking the hook of a run. It is read from
// where Cluster API itself keeps it in mind.
func asked(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	if Asks(run.Spec.Hook, cluster) {
		return true
	}
	// Without a topology, a deletion that has begun has passed.
	if !cluster.Spec.Topology.IsDefined() && !cluster.DeletionTimestamp.IsZero() {
		return false
	}
	if deleting := !cluster.DeletionTimestamp.IsZero(); deleting || run.Spec.Hook == lifecyclev1.BeforeClusterDelete {
		_, passed := cluster.Annotations[runtimev1.OkToDeleteAnnotation]
		return deleting && run.Spec.Hook == lifecyclev1.BeforeClusterDelete && !passed
	}
	switch run.Spec.Hook {
	case lifecyclev1.BeforeClusterCreate:
		return !cluster.Spec.InfrastructureRef.IsDefined() && !cluster.Spec.ControlPlaneRef.IsDefined()
	case lifecyclev1.BeforeClusterUpgrade:
		return planned(run, cluster) && !tracked(lifecyclev1.AfterClusterUpgrade, cluster)
	case lifecyclev1.BeforeControlPlaneUpgrade:
		return planned(run, cluster)
	default:
		return tracked(run.Spec.Hook, cluster)
	}
}

// planned says whether the control plane is still to get the version of a run.
func planned(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	return cluster.Status.ControlPlane != nil && slices.ContainsFunc(cluster.Status.ControlPlane.UpgradePlan, func(v clusterv1.StatusUpgradePlanVersion) bool {
		return v.Version == run.Spec.Request.ToKubernetesVersion
	})
}

// tracked says whether Cluster API intends to call a hook, or goes on calling it.
func tracked(hook lifecyclev1.HookName, cluster *clusterv1.Cluster) bool {
	return slices.Contains(strings.Split(cluster.Annotations[runtimev1.PendingHooksAnnotation], ","), string(hook))
}

// nextChange is when something that must last changes first, such as a window that opens or
// closes; zero for never.
func nextChange(run *lifecyclev1.LifecycleRun, now time.Time) time.Time {
	var first time.Time
	for i := range run.Spec.Steps {
		s := &run.Spec.Steps[i]
		if !lasts(run, s) {
			continue
		}
		lasting, err := step.FactsOf(s).Lasting(now)
		if err == nil && !lasting.Changes.IsZero() && (first.IsZero() || lasting.Changes.Before(first)) {
			first = lasting.Changes
		}
	}
	return first
}
