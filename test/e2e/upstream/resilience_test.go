//go:build e2e

package upstream

import (
	"maps"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
)

// assertions are of one kind each: what its owners are to be.
type assertions = map[string]func(types.NamespacedName, []metav1.OwnerReference) error

// validateResilience is what upstream's own quick start looks at once machines are
// provisioned (quick_start_test.go), with Slipway's kinds in the place of DevCluster,
// DevMachine and so on: owners come back when they are taken away or of another version, so
// do finalizers, and nothing writes when nothing changes.
func validateResilience(topology bool) func(p framework.ClusterProxy, namespace, cluster string) {
	return func(p framework.ClusterProxy, namespace, cluster string) {
		filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
		owners := []assertions{
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, infrastructureOwners(topology),
			bootstrapOwners(topology), framework.KubeadmControlPlaneOwnerReferenceAssertions(topology), kubernetesOwners(),
		}
		By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(ctx, p, namespace, cluster, filter, owners...)
		By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(ctx, p, namespace, cluster, filter, owners...)
		By("Checking that finalizers are resilient")
		coreFinalizers := framework.CoreFinalizersAssertionWithLegacyClusters
		if topology {
			coreFinalizers = framework.CoreFinalizersAssertionWithClassyClusters
		}
		framework.ValidateFinalizersResilience(ctx, p, namespace, cluster, filter, coreFinalizers, framework.KubeadmControlPlaneFinalizersAssertion, framework.ExpFinalizersAssertion, finalizers)
		By("Checking that resourceVersions are stable")
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy: p, Namespace: namespace, OwnerGraphFilterFunction: filter,
			WaitToBecomeStable: e2eConfig.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
			WaitToRemainStable: e2eConfig.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
		})
	}
}

var (
	core           = clusterv1.GroupVersion.String()
	infrastructure = hostKind.GroupVersion().String()

	machine = owner(core, "Machine", true)
	pool    = owner(core, "MachinePool", true)
)

func owner(apiVersion, kind string, controller bool) metav1.OwnerReference {
	reference := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind}
	if controller {
		reference.Controller = ptr.To(true)
	}
	return reference
}

// exactly is one of several sets of owners.
func exactly(want ...[]metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		return framework.HasOneOfExactOwners(got, want...)
	}
}

// infrastructureOwners are those of Slipway's kinds. The Cluster controls what a topology made.
func infrastructureOwners(topology bool) assertions {
	cluster, class := owner(core, "Cluster", false), []metav1.OwnerReference{owner(core, "ClusterClass", false)}
	pools := []metav1.OwnerReference{pool}
	if topology {
		pools = append(pools, cluster)
	}
	return assertions{
		"HostCluster":             exactly([]metav1.OwnerReference{owner(core, "Cluster", topology)}),
		"HostClusterTemplate":     exactly(class),
		"HostMachine":             exactly([]metav1.OwnerReference{machine}, []metav1.OwnerReference{machine, owner(infrastructure, "HostMachinePool", false)}),
		"HostMachineTemplate":     exactly([]metav1.OwnerReference{cluster}, class),
		"HostMachinePool":         exactly(pools),
		"HostMachinePoolTemplate": exactly(class),
		"Host":                    exactly(nil),
	}
}

// bootstrapOwners is upstream's, but for pools without a topology: upstream's templates have
// none. Their KubeadmConfig has the MachinePool as its only owner.
func bootstrapOwners(topology bool) assertions {
	all := maps.Clone(framework.KubeadmBootstrapOwnerReferenceAssertions)
	if !topology {
		all["KubeadmConfig"] = exactly([]metav1.OwnerReference{machine}, []metav1.OwnerReference{pool})
	}
	return all
}

// kubernetesOwners is upstream's, but for the key that signs hand-overs: it belongs to the
// namespace, and to no cluster.
func kubernetesOwners() assertions {
	all := maps.Clone(framework.KubernetesReferenceAssertions)
	secret := all["Secret"]
	all["Secret"] = func(name types.NamespacedName, got []metav1.OwnerReference) error {
		if name.Name == "slipway-hand-over-signer" {
			return nil
		}
		return secret(name, got)
	}
	return all
}

var finalizers = map[string]func(types.NamespacedName) []string{
	"Host":            func(types.NamespacedName) []string { return []string{"host.infrastructure.slipway.dev"} },
	"HostCluster":     func(types.NamespacedName) []string { return []string{"hostcluster.infrastructure.slipway.dev"} },
	"HostMachine":     func(types.NamespacedName) []string { return []string{"hostmachine.infrastructure.slipway.dev"} },
	"HostMachinePool": func(types.NamespacedName) []string { return []string{"hostmachinepool.infrastructure.slipway.dev"} },
}
