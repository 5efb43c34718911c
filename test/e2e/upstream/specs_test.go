//go:build e2e

package upstream

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
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

// The quick start, with each of the kinds of worker that a cluster may have.
var _ = Describe("Quick start", Label("QuickStart"), func() {
	for _, flavor := range []string{"default", "machinepool", "topology"} {
		Context("flavor "+flavor, Label("QuickStart-"+flavor), func() {
			e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
				return e2e.QuickStartSpecInput{
					E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
					ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
					Flavor: flavorName(flavor), PostMachinesProvisioned: validateResilience(flavor == "topology"),
				}
			})
		})
	}
})

// flavorName is what clusterctl calls a flavor: the default one has no name.
func flavorName(flavor string) *string {
	if flavor == "default" {
		return nil
	}
	return &flavor
}

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

var _ = Describe("Remediation of a machine deployment", Label("MachineDeploymentRemediation"), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
		}
	})
})

var _ = Describe("Remediation of control planes", Label("KCPRemediation"), func() {
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup,
			PostNamespaceCreated: func(p framework.ClusterProxy, namespace string) {
				publishClusterInfo(p)
				enrollHosts(p, namespace)
			},
		}
	})
})

var _ = Describe("Adoption of a control plane", Label("KCPAdoption"), func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
		}
	})
})

var _ = Describe("Draining nodes", Label("NodeDrainTimeout"), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: ptr.To("topology-deployment"),
		}
	})
})

var _ = Describe("Upgrade of Kubernetes", Label("ClusterUpgradeConformance"), func() {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		return e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: ptr.To("topology"), WorkerMachineCount: ptr.To[int64](1), SkipConformanceTests: true,
		}
	})
})

var _ = Describe("Changes of a ClusterClass", Label("ClusterClassChanges"), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		// as in upstream's clusterclass_changes_test.go, with a field of Slipway's templates
		bootstrap := map[string]any{"spec.template.spec.verbosity": int64(4)}
		infrastructure := map[string]any{"spec.template.spec.resetPolicy": "Full"}
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor:                   "topology",
			ModifyControlPlaneFields: map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields:       bootstrap,
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: infrastructure,
			ModifyMachinePoolBootstrapConfigTemplateFields:             bootstrap,
			ModifyMachinePoolInfrastructureMachinePoolTemplateFields:   infrastructure,
		}
	})
})

var _ = Describe("Rollouts of a ClusterClass", Label("ClusterClassRollout"), func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: "topology-taints",
		}
	})
})

var _ = Describe("Rollouts without a topology", Label("KCPAndMachineDeploymentRollout"), func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: e2eConfig, ClusterctlConfigPath: clusterctlConfigPath, BootstrapClusterProxy: proxy,
			ArtifactFolder: *artifacts, SkipCleanup: *skipCleanup, PostNamespaceCreated: enrollHosts,
			Flavor: "taints",
		}
	})
})

// publishClusterInfo makes what kubeadm leaves in the management clusters of upstream's, by
// which machines of this spec find the API server that holds them up.
func publishClusterInfo(p framework.ClusterProxy) {
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters: [{name: '', cluster: {server: '" + planeServer + "'}}]\n"},
	}
	Expect(client.IgnoreAlreadyExists(p.GetClient().Create(ctx, info))).To(Succeed())
}

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
