package hostmachinepool

import (
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/rollout"
)

// members joins HostMachines and Machines by the reference between them.
func (s *scope) members() []rollout.Member {
	index := make(map[string]int, len(s.hostMachines))
	members := make([]rollout.Member, 0, len(s.hostMachines))
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		index[m.Name] = len(members)
		members = append(members, s.member(m))
	}
	for i := range s.machines {
		m := &s.machines[i]
		at, ok := index[m.Spec.InfrastructureRef.Name]
		if !ok {
			at = len(members)
			members = append(members, rollout.Member{Name: m.Name, Created: m.CreationTimestamp.Time})
		}
		join(&members[at], m)
	}
	return members
}

func (s *scope) member(m *infrav1.HostMachine) rollout.Member {
	member := rollout.Member{
		Name:        m.Name,
		HostMachine: true,
		Leaving:     !m.DeletionTimestamp.IsZero(),
		Marked:      marked(m),
		Claimed:     m.Spec.ProviderID != "",
		Provisioned: provisioned(m),
		Failed:      failed(m),
		Version:     m.Spec.Version,
		Revision:    m.Labels[infrav1.RevisionLabel],
		Upgrading:   upgrading(m),
		Evacuate:    evacuating(m),
		Replaces:    m.Annotations[infrav1.ReplacesAnnotation],
		Created:     m.CreationTimestamp.Time,
	}
	if s.outgrown(m) {
		member.Revision = s.revision
	}
	if m.Spec.Spread != nil {
		member.Domain = m.Spec.Spread.Value
	}
	if h := s.hosts.of(m); h != nil {
		member.Domain = s.hosts.domain(h)
		member.Upgradable = host.OfferOf(h, s.version(), s.hosts.release) != host.OfferNone
	}
	return member
}

// join adds what the Machine says of a member. Its condition Available is core's
// word that the Node has been ready for minReadySeconds.
func join(member *rollout.Member, m *clusterv1.Machine) {
	member.Machine = true
	member.MachineLeaving = !m.DeletionTimestamp.IsZero()
	member.Leaving = member.Leaving || member.MachineLeaving
	member.Marked = member.Marked || marked(m)
	member.Available = conditions.IsTrue(m, clusterv1.AvailableCondition)
}

func marked(o client.Object) bool {
	_, ok := o.GetAnnotations()[clusterv1.DeleteMachineAnnotation]
	return ok
}

func provisioned(m *infrav1.HostMachine) bool {
	return ptr.Deref(m.Status.Initialization.Provisioned, false)
}

// well says whether a member is provisioned and nothing is known to be wrong with its
// agent and its Node.
func well(m *infrav1.HostMachine) bool {
	return provisioned(m) && m.DeletionTimestamp.IsZero() && !conditions.IsFalse(m, clusterv1.ReadyCondition)
}

// upgrading is true from the moment another version is asked of a machine that runs
// until its host runs it.
func upgrading(m *infrav1.HostMachine) bool {
	return m.Spec.Version != "" && m.Status.Version != "" && m.Spec.Version != m.Status.Version
}

// evacuating says whether the host of a member is to be emptied.
func evacuating(m *infrav1.HostMachine) bool {
	return conditions.IsTrue(m, infrav1.EvacuatingCondition)
}

// failed says whether the bootstrap or the last upgrade failed for good.
func failed(m *infrav1.HostMachine) bool {
	return conditions.GetReason(m, infrav1.BootstrapSucceededCondition) == infrav1.BootstrapFailedReason ||
		conditions.GetReason(m, infrav1.UpToDateCondition) == infrav1.UpgradeFailedReason
}
