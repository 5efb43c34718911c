package v1alpha1

import "slices"

// HookName is a lifecycle hook of Cluster API.
// +kubebuilder:validation:Enum=BeforeClusterCreate;AfterControlPlaneInitialized;BeforeClusterUpgrade;BeforeControlPlaneUpgrade;AfterControlPlaneUpgrade;BeforeWorkersUpgrade;AfterWorkersUpgrade;AfterClusterUpgrade;BeforeClusterDelete
type HookName string

// The lifecycle hooks, in the order of a cluster's life (seed lifecycle-hooks-guide,
// and upstream's docs/book, "Implementing Lifecycle Hook Runtime Extensions").
const (
	// BeforeClusterCreate: nothing of the topology exists yet.
	BeforeClusterCreate HookName = "BeforeClusterCreate"
	// AfterControlPlaneInitialized: the API server of the cluster answers for the
	// first time. It blocks nothing.
	AfterControlPlaneInitialized HookName = "AfterControlPlaneInitialized"
	// BeforeClusterUpgrade: the version of the topology was changed, nothing else.
	BeforeClusterUpgrade HookName = "BeforeClusterUpgrade"
	// BeforeControlPlaneUpgrade: the control plane is about to get a version of the
	// upgrade plan.
	BeforeControlPlaneUpgrade HookName = "BeforeControlPlaneUpgrade"
	// AfterControlPlaneUpgrade: the control plane has a version of the upgrade plan.
	AfterControlPlaneUpgrade HookName = "AfterControlPlaneUpgrade"
	// BeforeWorkersUpgrade: the workers are about to get a version.
	BeforeWorkersUpgrade HookName = "BeforeWorkersUpgrade"
	// AfterWorkersUpgrade: all workers have a version.
	AfterWorkersUpgrade HookName = "AfterWorkersUpgrade"
	// AfterClusterUpgrade: everything has the version of the topology. It holds back
	// only the next upgrade (upstream since v1.12; the guide has it non-blocking).
	AfterClusterUpgrade HookName = "AfterClusterUpgrade"
	// BeforeClusterDelete: the Cluster is being deleted, everything else is still there.
	BeforeClusterDelete HookName = "BeforeClusterDelete"
)

// Hooks returns the lifecycle hooks in the order of a cluster's life.
func Hooks() []HookName {
	return []HookName{
		BeforeClusterCreate, AfterControlPlaneInitialized,
		BeforeClusterUpgrade, BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade,
		BeforeWorkersUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade,
		BeforeClusterDelete,
	}
}

// Blocking says whether Cluster API waits for the answer of the hook.
func (h HookName) Blocking() bool { return h != AfterControlPlaneInitialized }

// DelaysTopology says whether all other changes of the topology, such as scaling, wait
// with the hook: Cluster API changes nothing of what is yet to be upgraded (seed
// lifecycle-hooks-guide, notes to BeforeClusterUpgrade and AfterControlPlaneUpgrade).
func (h HookName) DelaysTopology() bool {
	return slices.Contains([]HookName{BeforeClusterUpgrade, BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade, BeforeWorkersUpgrade}, h)
}

// WithoutTopology says whether admission can hold a Cluster without a topology back at what
// is a hook for others.
func (h HookName) WithoutTopology() bool { return h == BeforeClusterCreate || h == BeforeClusterDelete }
