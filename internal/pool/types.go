package pool

import (
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Pool is all that a plan depends on.
type Pool struct {
	// Desired is the number of members wanted. A plan with External ignores it.
	Desired int
	// Version and Revision are what a member is made with now. The plan neither
	// creates nor replaces while Revision is empty: what members would be made
	// from is not known.
	Version, Revision string
	Strategy          Strategy
	// Hold says why nothing may be replaced now; empty when it may.
	Hold string
	// External leaves the number of members to somebody else
	// (cluster.x-k8s.io/replicas-managed-by): the plan only replaces them, one
	// for one.
	External bool
	// Deleting is true when the pool or its MachinePool is being deleted: core makes no
	// Machines for its members then, and nothing waits to be drained.
	Deleting bool
	// Frozen says why members are only removed, and none is made, replaced, upgraded or
	// moved: the pool or its Cluster is being deleted. It is empty while neither is.
	Frozen string
	// Stalled is true when the progress deadline has passed.
	Stalled bool
	// FreeHosts is the number of hosts that new members could claim now.
	FreeHosts int
	// Domains are the failure domains to spread over; none when it is empty.
	Domains []Domain
	// HardSpread makes a member wait for a host of its domain.
	HardSpread bool
	Members    []Member
}

// Strategy is a HostMachinePoolStrategy with its defaults, in members.
type Strategy struct {
	Type                     infrav1.RolloutType
	MaxSurge, MaxUnavailable int
	DeletePolicy             infrav1.DeletePolicy
	NoSpareHost              infrav1.NoSpareHostPolicy
}

// Domain is a failure domain with hosts that suit the pool.
type Domain struct {
	Name string
	// Free is the number of its hosts that new members could claim now.
	Free int
}

// Member is one machine of a pool: a HostMachine, its Machine, or both.
type Member struct {
	Name string
	// HostMachine and Machine say which of the two objects exist.
	HostMachine, Machine bool
	// Leaving is true once either of the two is being deleted, MachineLeaving once
	// the Machine is.
	Leaving, MachineLeaving bool
	// Marked is true when an operator or the autoscaler asked for this one to go
	// first (annotation cluster.x-k8s.io/delete-machine).
	Marked bool
	// Claimed, Provisioned and Available say how far it has come. Claimed is read
	// from the spec, so that it survives a move; Available means that its Node is
	// ready.
	Claimed, Provisioned, Available bool
	// Failed is true when its bootstrap or upgrade failed for good.
	Failed bool
	// Version and Revision are those it was made with or upgraded to.
	Version, Revision string
	// Upgrading is true while its host changes to Version. It counts as not
	// available until then.
	Upgrading bool
	// Upgradable is true when its host offers the version of the pool.
	Upgradable bool
	// Evacuate is true when its host is to be emptied. It is replaced whatever the
	// strategy, as soon as another host is free.
	Evacuate bool
	// Domain is the failure domain of its host, or the one chosen for it.
	Domain string
	// Replaces names the member it was made to replace (External only).
	Replaces string
	Created  time.Time

	// The rest is for remediation.

	// Health is what MachineHealthChecks say of it.
	Health Health
	// Pinned is true when it was made for one host, and waits for no other.
	Pinned bool
	// Connected is true while the agent of its host is.
	Connected bool
	// UnbegunSince is since when the agent of its host is silent, if nothing can have
	// been begun there for it; zero otherwise.
	UnbegunSince time.Time
	// Skipped is true while an operator wants no step for it: its Machine has annotation
	// cluster.x-k8s.io/skip-remediation.
	Skipped bool
	// RebootFailed is true when the agent reported that the last reboot failed.
	RebootFailed bool
	// Attempt is the last step that was tried; nil when there was none.
	Attempt *Attempt
	// Replaced is true when the member that action Rebootstrap makes in the place of this
	// one exists.
	Replaced bool
}

// Action is what a step does.
type Action string

const (
	// ActionCreate makes a HostMachine.
	ActionCreate Action = "Create"
	// ActionDeleteMachine deletes a Machine, so that core drains its Node and
	// deletes the HostMachine.
	ActionDeleteMachine Action = "DeleteMachine"
	// ActionDeleteHostMachine deletes a HostMachine that has no Machine, and so
	// nothing to drain.
	ActionDeleteHostMachine Action = "DeleteHostMachine"
	// ActionUpgrade upgrades a member on its host to the version of the pool.
	ActionUpgrade Action = "Upgrade"
	// ActionMove gives a member that has no host yet another failure domain.
	ActionMove Action = "Move"
)

// Step is one write.
type Step struct {
	Action Action
	// Name of the member; empty with ActionCreate.
	Name string
	// Domain for the member to be created or moved; empty without spread.
	Domain string
	// Replaces names the member that the new one replaces (External only).
	Replaces string
	// Reason tells why, in words for logs and events.
	Reason string
}

// Plan is what to do now.
type Plan struct {
	// Desired is the size the plan works towards.
	Desired int
	// Steps are to be carried out in order.
	Steps []Step
	// Updated and Outdated count the members that stay by whether they have the
	// version and the revision of the pool, which one that is upgrading has not yet;
	// UpdatedAvailable those of Updated that are available.
	Updated, UpdatedAvailable, Outdated int
	// Available counts the available members that stay, Leaving those that leave.
	Available, Leaving int
	// Differences tell what makes members outdated, with the number of each.
	Differences []string
	// Pause is why a rollout is paused; empty when it isn't.
	Pause Pause
	// Holds tell what the rest of the rollout waits for.
	Holds []string
}

// Pause is a reason with a message that tells what to do.
type Pause struct {
	// Reason is a reason of the condition RollingOut.
	Reason  string
	Message string
}

// Count is the number of steps with an action.
func (p Plan) Count(action Action) int {
	n := 0
	for _, s := range p.Steps {
		if s.Action == action {
			n++
		}
	}
	return n
}
