package plan

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

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
// what was approved and executed for it does not count when it asks again.
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
