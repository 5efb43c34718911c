package plan

import (
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/meta"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// NotDue says why Cluster API cannot be calling a hook of a Cluster now, with that
// request; empty when it can. The Cluster must be as the API server has it. A caller
// whose view is older than that calls again.
//
// It goes by what Cluster API itself keeps in mind (v1.14: core/reconcilers/topology/cluster
// and exp/topology/desiredstate/lifecycle_hooks.go): references, the topology's version,
// and the annotation of pending hooks, which is written before the hook is called.
func NotDue(hook lifecyclev1.HookName, request lifecyclev1.RunRequest, cluster *clusterv1.Cluster) string {
	if deleting := !cluster.DeletionTimestamp.IsZero(); deleting != (hook == lifecyclev1.BeforeClusterDelete) {
		return fmt.Sprintf("its deletion has begun: %t", deleting)
	}
	switch hook {
	case lifecyclev1.BeforeClusterCreate:
		if cluster.Spec.InfrastructureRef.IsDefined() || cluster.Spec.ControlPlaneRef.IsDefined() {
			return "it is created already"
		}
		return ""
	case lifecyclev1.BeforeClusterDelete:
		if _, passed := cluster.Annotations[runtimev1.OkToDeleteAnnotation]; passed {
			return "its deletion was let pass already"
		}
		return ""
	case lifecyclev1.AfterControlPlaneInitialized:
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition) {
			return "its control plane is not initialized"
		}
		return notPending(hook, cluster)
	case lifecyclev1.BeforeClusterUpgrade:
		return noUpgradeDue(request, cluster)
	case lifecyclev1.BeforeControlPlaneUpgrade:
		// Pending from the moment on at which BeforeClusterUpgrade passed.
		if reason := notPending(lifecyclev1.AfterClusterUpgrade, cluster); reason != "" {
			return reason
		}
		return notOnTheWay(request.FromKubernetesVersion, request.ToKubernetesVersion, cluster)
	case lifecyclev1.BeforeWorkersUpgrade:
		if reason := notPending(hook, cluster); reason != "" {
			return reason
		}
		return notOnTheWay(request.FromKubernetesVersion, request.ToKubernetesVersion, cluster)
	case lifecyclev1.AfterClusterUpgrade:
		if wanted := cluster.Spec.Topology.Version; request.KubernetesVersion != wanted {
			return fmt.Sprintf("it asks for %s, not %s", wanted, request.KubernetesVersion)
		}
		return notPending(hook, cluster)
	default:
		if reason := notPending(hook, cluster); reason != "" {
			return reason
		}
		return notOnTheWay("", request.KubernetesVersion, cluster)
	}
}

func notPending(hook lifecyclev1.HookName, cluster *clusterv1.Cluster) string {
	if tracked(hook, cluster) {
		return ""
	}
	return notAmong(hook)
}

func notAmong(hook lifecyclev1.HookName) string {
	return fmt.Sprintf("%s is not among its pending hooks", hook)
}

// Repeated says whether a reason of NotDue only means that a hook which holds nothing back was called
// before: Cluster API calls again what its cache still has among the pending hooks.
func Repeated(hook lifecyclev1.HookName, reason string) bool {
	return !hook.Blocking() && reason == notAmong(hook)
}

// noUpgradeDue: BeforeClusterUpgrade leads to the version of the topology, from one that
// its control plane has.
func noUpgradeDue(request lifecyclev1.RunRequest, cluster *clusterv1.Cluster) string {
	wanted := cluster.Spec.Topology.Version
	switch {
	case request.ToKubernetesVersion != wanted:
		return fmt.Sprintf("it asks for %s, not %s", wanted, request.ToKubernetesVersion)
	case request.FromKubernetesVersion == wanted:
		return "it asks for no other version"
	case tracked(lifecyclev1.AfterClusterUpgrade, cluster):
		return "its upgrade has begun already"
	}
	if reason := notOnTheWay(request.FromKubernetesVersion, request.ToKubernetesVersion, cluster); reason != "" {
		return reason
	}
	if cluster.Status.ControlPlane == nil || len(cluster.Status.ControlPlane.Versions) == 0 {
		return ""
	}
	from, _ := semver.ParseTolerant(request.FromKubernetesVersion)
	if !slices.ContainsFunc(cluster.Status.ControlPlane.Versions, func(v clusterv1.StatusVersion) bool {
		version, err := semver.ParseTolerant(v.Version)
		return err == nil && version.Major == from.Major && version.Minor == from.Minor && v.Version != wanted
	}) {
		return fmt.Sprintf("its control plane is not of %s", request.FromKubernetesVersion)
	}
	return ""
}

// notOnTheWay refuses versions that lead nowhere, or beyond the version of the topology.
func notOnTheWay(from, to string, cluster *clusterv1.Cluster) string {
	wanted, err := semver.ParseTolerant(cluster.Spec.Topology.Version)
	if err != nil {
		return fmt.Sprintf("its topology asks for the version %q", cluster.Spec.Topology.Version)
	}
	target, err := semver.ParseTolerant(to)
	if err != nil || target.GT(wanted) {
		return fmt.Sprintf("it asks for %s, which is not after %q", cluster.Spec.Topology.Version, to)
	}
	if from == "" {
		return ""
	}
	if begin, err := semver.ParseTolerant(from); err != nil || begin.GT(target) {
		return fmt.Sprintf("%q does not lead to %q", from, to)
	}
	return ""
}
