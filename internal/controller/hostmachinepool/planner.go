package hostmachinepool

import (
	"cmp"
	"slices"
	"time"
)

// member is one machine of a pool: a HostMachine, its Machine, or both.
type member struct {
	name string
	// hostMachine and machine say which of the two objects exist.
	hostMachine, machine bool
	// leaving is true once either of the two is being deleted.
	leaving bool
	// machineLeaving is true once the Machine is being deleted.
	machineLeaving bool
	// marked is true when an operator or the autoscaler asked for this one to go
	// first (annotation cluster.x-k8s.io/delete-machine).
	marked bool
	// claimed, provisioned and ready say how far it has come.
	claimed, provisioned, ready bool
	created                     time.Time
}

// plan is what brings a pool nearer to its size.
type plan struct {
	// create is the number of HostMachines to make.
	create int
	// deleteMachines are deleted through their Machine, so that core drains them.
	deleteMachines []string
	// deleteHostMachines have no Machine, and so nothing to drain.
	deleteHostMachines []string
}

func (p plan) empty() bool {
	return p.create == 0 && len(p.deleteMachines) == 0 && len(p.deleteHostMachines) == 0
}

// makePlan compares a pool with its desired size. A member that is leaving counts
// no more, so its replacement doesn't wait for it; the plan for a pool that has the
// right size is empty, whatever order the members come in.
func makePlan(desired int, members []member) plan {
	var p plan
	var staying []member
	for _, m := range members {
		switch {
		case !m.hostMachine:
			// Core made the Machine from a HostMachine that is gone since.
			p.remove(m)
		case m.leaving:
			if m.machine {
				p.remove(m)
			}
		default:
			staying = append(staying, m)
		}
	}
	if surplus := len(staying) - desired; surplus > 0 {
		slices.SortFunc(staying, leavesBefore)
		for _, m := range staying[:surplus] {
			p.remove(m)
		}
	}
	p.create = max(desired-len(staying), 0)
	slices.Sort(p.deleteMachines)
	slices.Sort(p.deleteHostMachines)
	return p
}

func (p *plan) remove(m member) {
	switch {
	case m.machine && !m.machineLeaving:
		p.deleteMachines = append(p.deleteMachines, m.name)
	case !m.machine:
		p.deleteHostMachines = append(p.deleteHostMachines, m.name)
	}
}

// leavesBefore orders the members of a pool that shrinks: what was marked goes
// first, then what costs least to lose (without host, not provisioned, not
// ready), then the newest, as ReplicaSets do: it has gathered the fewest pods. The
// name decides at last, so that the order never depends on chance.
func leavesBefore(a, b member) int {
	return cmp.Or(
		-compareBool(a.marked, b.marked),
		compareBool(a.claimed, b.claimed),
		compareBool(a.provisioned, b.provisioned),
		compareBool(a.ready, b.ready),
		b.created.Compare(a.created),
		cmp.Compare(a.name, b.name),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
