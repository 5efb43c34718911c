package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// CancelReason says why a run is to be given up; empty to go on. The policy is nil when
// it is known to be gone. That it is still about the Cluster, expression.Matcher knows.
//
// A run that has succeeded is given up, too, when its upgrade is called off: what was
// approved and executed for it does not count when the version is requested again.
func CancelReason(run *lifecyclev1.LifecycleRun, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster, now time.Time) string {
	if run.Spec.Cancelled != "" {
		return ""
	}
	if !Open(run, cluster, now) {
		return cmp.Or(calledOff(run, cluster), withdrawn(run, cluster))
	}
	if !cluster.DeletionTimestamp.IsZero() && run.Spec.Hook != lifecyclev1.BeforeClusterDelete {
		return "the Cluster is being deleted"
	}
	if reason := cmp.Or(calledOff(run, cluster), withdrawn(run, cluster)); reason != "" {
		return reason
	}
	name := run.Spec.PolicyName
	if policy == nil || !policy.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("LifecyclePolicy %s was deleted", name)
	}
	if policy.Steps(run.Spec.Hook) == nil {
		return fmt.Sprintf("LifecyclePolicy %s does not answer %s any more", name, run.Spec.Hook)
	}
	if !Enforces(policy, run.Spec.Hook, cluster) {
		return fmt.Sprintf("LifecyclePolicy %s holds back no Clusters without a topology any more", name)
	}
	if run.Spec.Mode == lifecyclev1.ModeAudit && policy.Spec.Mode == lifecyclev1.ModeEnforce {
		return fmt.Sprintf("LifecyclePolicy %s is enforced now, and this run only looks", name)
	}
	return ""
}

// calledOff says whether the version that an upgrade leads to, or has led to, is not
// wanted any more: because a lower one is, or because another one is before the upgrade
// has begun. A higher one may have this one on its way. Cluster API takes either only
// with its annotation disable-update-version-check, unless the upgrade has ended.
func calledOff(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) string {
	version, wanted := cmp.Or(run.Spec.Request.ToKubernetesVersion, run.Spec.Request.KubernetesVersion), cluster.Spec.Topology.Version
	if version == "" || version == wanted || wanted == "" {
		return ""
	}
	if !below(wanted, version) && (run.Spec.Hook != lifecyclev1.BeforeClusterUpgrade || begun(run, cluster)) {
		return ""
	}
	return fmt.Sprintf("the upgrade to %s was called off: the Cluster asks for %s", version, wanted)
}

// begun says whether the upgrade that a run of BeforeClusterUpgrade is about has begun.
// One whose versions are not known is taken to have.
func begun(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) bool {
	if !Finished(run) {
		return false
	}
	if tracked(lifecyclev1.AfterClusterUpgrade, cluster) || cluster.Status.ControlPlane == nil || len(cluster.Status.ControlPlane.Versions) == 0 {
		return true
	}
	return slices.ContainsFunc(cluster.Status.ControlPlane.Versions, func(v clusterv1.StatusVersion) bool {
		return !below(v.Version, run.Spec.Request.ToKubernetesVersion)
	})
}

// below says whether a version is known to be lower than another one.
func below(version, other string) bool {
	a, err := semver.ParseTolerant(version)
	b, errOther := semver.ParseTolerant(other)
	return err == nil && errOther == nil && a.LT(b)
}

// neverInitialized is how long a Cluster must have said that its control plane is not
// initialized. After clusterctl move it says so for a moment of every cluster.
const neverInitialized = 2 * time.Minute

// NoWorkload says why a step on the workload cluster cannot be done before the Cluster
// is deleted, and so is skipped: there never was one. It is empty when it can, when the
// step works elsewhere, and while it is not certain.
func NoWorkload(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, cluster *clusterv1.Cluster, now time.Time) string {
	if run.Spec.Hook != lifecyclev1.BeforeClusterDelete || step.FactsOf(s).Workload == "" {
		return ""
	}
	if Waits(cluster) {
		return "the Cluster was never unpaused, so there is no workload cluster"
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

// Enforces says whether a policy that is about a Cluster has anything held back of it at a
// hook: of one without a topology creation and deletion, with enforcement All.
func Enforces(policy *lifecyclev1.LifecyclePolicy, hook lifecyclev1.HookName, cluster *clusterv1.Cluster) bool {
	return cluster.Spec.Topology.IsDefined() ||
		policy.Spec.Enforcement == lifecyclev1.EnforcementAll && hook.WithoutTopology()
}

// Asks says whether a Cluster without a topology, for which Cluster API calls no hooks,
// asks by itself for what comes before its creation or its deletion.
func Asks(hook lifecyclev1.HookName, cluster *clusterv1.Cluster) bool {
	if cluster.Spec.Topology.IsDefined() || !cluster.DeletionTimestamp.IsZero() {
		return false
	}
	switch hook {
	case lifecyclev1.BeforeClusterCreate:
		return Waits(cluster)
	case lifecyclev1.BeforeClusterDelete:
		_, asks := cluster.Annotations[lifecyclev1.RequestDeletionAnnotation]
		return asks
	default:
		return false
	}
}

// Waits says whether a Cluster without a topology is paused before anything of it was
// made: neither is anything told in its status, nor has it an endpoint, which one has that
// was made in another management cluster and has arrived by clusterctl move.
func Waits(cluster *clusterv1.Cluster) bool {
	return !cluster.Spec.Topology.IsDefined() && ptr.Deref(cluster.Spec.Paused, false) &&
		!Provisioned(cluster) && cluster.Spec.ControlPlaneEndpoint.IsZero()
}

// Provisioned says whether the status of a Cluster tells that its creation has begun. It
// does not survive clusterctl move.
func Provisioned(cluster *clusterv1.Cluster) bool {
	initialized := &cluster.Status.Initialization
	return ptr.Deref(initialized.InfrastructureProvisioned, false) || ptr.Deref(initialized.ControlPlaneInitialized, false)
}

// withdrawn says why a Cluster without a topology does not want what it has asked for:
// what was approved and executed for it does not count for the next request.
func withdrawn(run *lifecyclev1.LifecycleRun, cluster *clusterv1.Cluster) string {
	if cluster.Spec.Topology.IsDefined() || !cluster.DeletionTimestamp.IsZero() || Asks(run.Spec.Hook, cluster) {
		return ""
	}
	switch run.Spec.Hook {
	case lifecyclev1.BeforeClusterDelete:
		return "the deletion of the Cluster is not asked for any more"
	case lifecyclev1.BeforeClusterCreate:
		if !Finished(run) && !ptr.Deref(cluster.Spec.Paused, false) {
			return "the Cluster is not paused any more"
		}
	default:
	}
	return ""
}
