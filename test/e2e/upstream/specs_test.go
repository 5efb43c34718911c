//go:build e2e

package upstream

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"sigs.k8s.io/cluster-api/test/e2e"
)

// Labels are the names of the specs without "Spec", by which `make test-upstream SPEC=...`
// chooses.

var _ = Describe("Machine pool", Label("MachinePool"), func() {
	e2e.MachinePoolSpec(ctx, func() e2e.MachinePoolInput {
		return e2e.MachinePoolInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: ptr.To("machinepool"),
		}
	})
})

var _ = Describe("Scaling a machine deployment", Label("MachineDeploymentScale"), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
		}
	})
})

var _ = Describe("Quick start with a machine pool", Label("QuickStart"), func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: ptr.To("machinepool"), PostMachinesProvisioned: validateResilience,
		}
	})
})

var _ = Describe("Deletion of a cluster", Label("ClusterDeletion"), func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: ptr.To("topology"), ControlPlaneMachineCount: ptr.To[int64](1),
			ClusterDeletionPhases: deletionPhases,
		}
	})
})

// deletionPhases are those of upstream's cluster_deletion_test.go, with machine pools in the
// first and HostCluster in the last.
var deletionPhases = []e2e.ClusterDeletionPhase{
	{
		ObjectFilter: func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			if object.Kind == "Machine" {
				return owned(owners, "MachineDeployment", "MachineSet", "MachinePool")
			}
			return slices.Contains([]string{"MachineDeployment", "MachineSet", "MachinePool"}, object.Kind)
		},
		BlockingObjectFilter: ofKind("Machine"),
	},
	{
		ObjectFilter: func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			return object.Kind == "Machine" && owned(owners, "KubeadmControlPlane") || object.Kind == "KubeadmControlPlane"
		},
		BlockingObjectFilter: ofKind("Machine"),
	},
	{ObjectFilter: ofKind("HostCluster"), BlockingObjectFilter: ofKind("HostCluster")},
}

func ofKind(kind string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool { return object.Kind == kind }
}

func owned(owners []metav1.OwnerReference, kinds ...string) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return slices.Contains(kinds, owner.Kind) })
}
