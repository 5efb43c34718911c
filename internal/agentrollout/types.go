package agentrollout

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Rollout is what a plan is made of.
type Rollout struct {
	Release infrav1.AgentReleaseSpec
	// ManagerVersion is the version whose release is rolled out, and no other one.
	ManagerVersion string
	// Hosts of all namespaces that the manager serves.
	Hosts []Host
}

// Host is all that a plan depends on of a Host. It is comparable: while it stays the same,
// nothing is to be planned anew.
type Host struct {
	Key types.NamespacedName
	// Domain is its failure domain; empty for none.
	Domain string
	// Architecture as the agent reports it.
	Architecture string
	// Managed is true for an agent that updates itself.
	Managed bool
	Agent   host.Agent
	// Connected and Approved hosts that are not Paused can update.
	Connected, Approved, Paused bool
	Deleting                    bool
	// Claimed and Busy hosts are not the first choice.
	Claimed, Busy bool
	// ControlPlane is the Cluster whose control-plane address the host has or may get;
	// zero for none.
	ControlPlane types.NamespacedName
}

// HostOf reads a Host.
func HostOf(h *infrav1.Host) Host {
	seen := Host{
		Key:          types.NamespacedName{Namespace: h.Namespace, Name: h.Name},
		Domain:       h.Spec.FailureDomain,
		Architecture: h.Status.Inventory.Architecture,
		Managed:      host.AgentManaged(h),
		Agent:        host.AgentOf(h),
		Connected:    host.Connected(h),
		Approved:     host.Approved(h),
		Paused:       meta.IsStatusConditionTrue(h.Status.Conditions, clusterv1.PausedCondition),
		Deleting:     !h.DeletionTimestamp.IsZero(),
		Claimed:      h.Spec.Claim != nil,
		Busy:         host.Busy(h),
	}
	if h.Spec.Claim != nil && (h.Status.VirtualIP != nil || h.Spec.Desired != nil && h.Spec.Desired.VirtualIP != "") {
		seen.ControlPlane = types.NamespacedName{Namespace: h.Namespace, Name: h.Spec.Claim.ClusterName}
	}
	return seen
}

// Plan is what to do now.
type Plan struct {
	// Ask are the hosts whose update is requested now.
	Ask []types.NamespacedName
	// Held are the hosts that neither update now nor run the version, by name.
	Held []Held
	// Hosts takes part in the rollout; Updated and Failed are parts of it.
	Hosts, Updated, Failed int32
	// Domain is the failure domain whose hosts update now; empty for none.
	Domain string
	// Begins is true when Ask has the first hosts of Domain.
	Begins bool
	// Condition is RolledOut.
	Condition metav1.Condition
}

// Held is a host whose update is not requested now.
type Held struct {
	Host types.NamespacedName
	// Why completes "it is not asked because".
	Why string
}
