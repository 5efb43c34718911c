package pool

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Observe makes the members of HostMachines and Machines, which it joins by the reference between
// them: member i is of HostMachine i, and Machines without one follow. The caller adds what only
// hosts tell: Upgradable, Connected and UnbegunSince.
func Observe(hostMachines []infrav1.HostMachine, machines []clusterv1.Machine) []Member {
	index := make(map[string]int, len(hostMachines))
	members := make([]Member, 0, len(hostMachines))
	replaced := map[string]bool{}
	for i := range hostMachines {
		m := ofHostMachine(&hostMachines[i])
		if m.Attempt != nil {
			replaced[m.Attempt.Replaces] = true
		}
		index[m.Name] = len(members)
		members = append(members, m)
	}
	for i := range machines {
		m := &machines[i]
		at, ok := index[m.Spec.InfrastructureRef.Name]
		if !ok {
			at = len(members)
			members = append(members, Member{Name: m.Name, Created: m.CreationTimestamp.Time})
		}
		members[at].join(m)
	}
	for i := range members {
		members[i].Replaced = replaced[members[i].Name]
	}
	return members
}

func ofHostMachine(m *infrav1.HostMachine) Member {
	member := Member{
		Name:         m.Name,
		HostMachine:  true,
		Leaving:      !m.DeletionTimestamp.IsZero(),
		Marked:       marked(m),
		Claimed:      m.Spec.ProviderID != "",
		Pinned:       m.Spec.HostName != "",
		Provisioned:  ptr.Deref(m.Status.Initialization.Provisioned, false),
		Failed:       failed(m),
		Version:      m.Spec.Version,
		Revision:     m.Labels[infrav1.RevisionLabel],
		Upgrading:    upgrading(m),
		Evacuate:     Evacuating(m),
		Replaces:     m.Annotations[infrav1.ReplacesAnnotation],
		Created:      m.CreationTimestamp.Time,
		Health:       HealthUnknown,
		RebootFailed: reason(m.Status.Conditions, infrav1.RebootedCondition) == infrav1.HostMachineRebootFailedReason,
		Attempt:      ParseAttempt(m.Annotations),
	}
	if m.Spec.Spread != nil {
		member.Domain = m.Spec.Spread.Value
	}
	return member
}

// join adds what the Machine says of a member. Its condition Available is core's
// word that the Node has been ready for minReadySeconds.
func (m *Member) join(machine *clusterv1.Machine) {
	m.Machine = true
	m.MachineLeaving = !machine.DeletionTimestamp.IsZero()
	m.Leaving = m.Leaving || m.MachineLeaving
	m.Marked = m.Marked || marked(machine)
	m.Available = meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.AvailableCondition)
	m.Health = HealthOf(machine)
	m.Skipped = skipped(machine)
}

// HealthOf reads what MachineHealthChecks wrote. They leave remediation to the owner
// by condition OwnerRemediated, and don't while too many machines are unhealthy.
func HealthOf(m *clusterv1.Machine) Health {
	switch {
	case meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition):
		return Healthy
	case !meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition):
		return HealthUnknown
	case meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition):
		return Unhealthy
	default:
		return Failing
	}
}

// Evacuating says whether the host of a member is to be emptied.
func Evacuating(m *infrav1.HostMachine) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, infrav1.EvacuatingCondition)
}

// skipped reports whether an operator wants the machine not to be remediated. The mark of a
// machine that waits for a host is for MachineHealthChecks only.
func skipped(m *clusterv1.Machine) bool {
	mark, found := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	return found && mark != infrav1.WaitingForHostMark
}

func marked(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[clusterv1.DeleteMachineAnnotation]
	return ok
}

// upgrading is true from the moment another version is asked of a machine that runs
// until its host runs it.
func upgrading(m *infrav1.HostMachine) bool {
	return m.Spec.Version != "" && m.Status.Version != "" && m.Spec.Version != m.Status.Version
}

// failed says whether the bootstrap or the last upgrade failed for good.
func failed(m *infrav1.HostMachine) bool {
	return reason(m.Status.Conditions, infrav1.BootstrapSucceededCondition) == infrav1.BootstrapFailedReason ||
		reason(m.Status.Conditions, infrav1.UpToDateCondition) == infrav1.UpgradeFailedReason
}

func reason(conditions []metav1.Condition, of string) string {
	if c := meta.FindStatusCondition(conditions, of); c != nil {
		return c.Reason
	}
	return ""
}
