package plan

import (
	"fmt"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// CancelReason says why a run is to be given up; empty to go on. The policy is nil when
// it is known to be gone. That it is still about the Cluster, package match knows.
func CancelReason(run *lifecyclev1.LifecycleRun, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster) string {
	if Finished(run) {
		return ""
	}
	if !cluster.DeletionTimestamp.IsZero() && run.Spec.Hook != lifecyclev1.BeforeClusterDelete {
		return "the Cluster is being deleted"
	}
	if reason := calledOff(run, cluster); reason != "" {
		return reason
	}
	name := run.Spec.PolicyName
	if policy == nil || !policy.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("LifecyclePolicy %s was deleted", name)
	}
	if policy.Steps(run.Spec.Hook) == nil {
		return fmt.Sprintf("LifecyclePolicy %s does not answer %s any more", name, run.Spec.Hook)
	}
	if run.Spec.Mode == lifecyclev1.ModeAudit && policy.Spec.Mode == lifecyclev1.ModeEnforce {
		return fmt.Sprintf("LifecyclePolicy %s is enforced now, and this run only looks", name)
	}
	return ""
}

// calledOff says whether the version that an upgrade was to lead to is not wanted any
// more. BeforeClusterUpgrade is called with the version of the topology; the hooks
// after it also with those on the way to it, so for them only a lower one counts.
func calledOff(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) string {
	to, wanted := run.Spec.Request.ToKubernetesVersion, cluster.Spec.Topology.Version
	if to == "" || to == wanted || wanted == "" {
		return ""
	}
	switch run.Spec.Hook {
	case lifecyclev1.BeforeClusterUpgrade:
	case lifecyclev1.BeforeControlPlaneUpgrade, lifecyclev1.BeforeWorkersUpgrade:
		toVersion, err := semver.ParseTolerant(to)
		wantedVersion, errWanted := semver.ParseTolerant(wanted)
		if err != nil || errWanted != nil || !wantedVersion.LT(toVersion) {
			return ""
		}
	default:
		return ""
	}
	return fmt.Sprintf("the upgrade to %s was called off: the Cluster asks for %s", to, wanted)
}

// neverInitialized is how long a Cluster must have said that its control plane is not
// initialized. After clusterctl move it says so for a moment of every cluster.
const neverInitialized = 2 * time.Minute

// NoWorkload says why a step on the workload cluster cannot be done before the Cluster
// is deleted, and so is skipped: there never was one. It is empty when it can, when the
// step works elsewhere, and while it is not certain.
func NoWorkload(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, cluster *clusterv1.Cluster, now time.Time) string {
	if run.Spec.Hook != lifecyclev1.BeforeClusterDelete || !OnWorkload(s) {
		return ""
	}
	if !cluster.Spec.ControlPlaneRef.IsDefined() {
		return "there is no control plane, so there is no workload cluster"
	}
	if ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return ""
	}
	said := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	if said == nil || said.Status != metav1.ConditionFalse || now.Sub(said.LastTransitionTime.Time) < neverInitialized {
		return ""
	}
	return "the control plane was never initialized, so there is no workload cluster"
}

// OnWorkload says whether a step works on the workload cluster.
func OnWorkload(s *lifecyclev1.Step) bool {
	return s.Apply != nil || s.Wait != nil || s.Export != nil || s.Job != nil && s.Job.Target != lifecyclev1.TargetManagement
}
