package remediation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Health is what MachineHealthChecks say about a machine.
type Health string

const (
	// Unknown means that no MachineHealthCheck looks at the machine.
	Unknown Health = "Unknown"
	// Healthy means that it passes.
	Healthy Health = "Healthy"
	// Failing means that it fails, but that the MachineHealthCheck holds
	// remediation back: too many machines are unhealthy.
	Failing Health = "Failing"
	// Unhealthy means that it fails and that the pool is to remediate it.
	Unhealthy Health = "Unhealthy"
)

// Member is one machine of the pool.
type Member struct {
	Name    string
	Created time.Time
	Health  Health
	// Leaving is true once the machine is being deleted.
	Leaving bool
	// Replaced is true when the machine that action Rebootstrap makes in the place
	// of this one exists.
	Replaced bool
	// Claimed is true when the machine has a host, Provisioned when it was
	// bootstrapped, and Connected while the agent of the host is.
	Claimed, Provisioned, Connected bool
	// Evacuate is true while the host is to be emptied for maintenance. The pool
	// replaces the machine then, and no step would do better.
	Evacuate bool
	// UnbegunSince is since when the agent of the host is silent, if nothing can have
	// been begun there for the machine; zero otherwise.
	UnbegunSince time.Time
	// Domain is the failure domain where what replaces the machine has to be; empty
	// when any will do.
	Domain string
	// Skipped is true while an operator wants no step for the machine: it has annotation
	// cluster.x-k8s.io/skip-remediation.
	Skipped bool
	// RebootFailed is true when the agent reported that the last reboot failed.
	RebootFailed bool
	// Attempt is the last step that was tried; nil when there was none.
	Attempt *Attempt
}

func (m Member) failing() bool { return m.Health == Unhealthy || m.Health == Failing }

// lookForHosts is how often to look whether a host became free.
const lookForHosts = 30 * time.Second

// Kind is what becomes of a member now.
type Kind string

const (
	// None leaves it alone.
	None Kind = "None"
	// Begin begins Decision.Attempt.
	Begin Kind = "Begin"
	// Pin makes the machine that takes the place of a leaving one, on its host.
	Pin Kind = "Pin"
	// Wait waits for the outcome of a step.
	Wait Kind = "Wait"
	// Defer would begin a step but must not now.
	Defer Kind = "Defer"
	// GiveUp means that no step is left.
	GiveUp Kind = "GiveUp"
	// Recovered means that the machine is healthy again: what is pending is over.
	Recovered Kind = "Recovered"
	// Forget drops the attempt: the steps begin anew next time.
	Forget Kind = "Forget"
)

// Decision is what becomes of one member.
type Decision struct {
	Member string
	Kind   Kind
	// Attempt is the step that begins, with Begin.
	Attempt Attempt
	// Message tells a person why.
	Message string
}

// Input is what Plan decides from.
type Input struct {
	Policy  Policy
	Members []Member
	// SpareHosts are the hosts that are free and fit, less the members that wait
	// for one.
	SpareHosts int
	// DomainSpares are those of them in each failure domain that a member names.
	DomainSpares map[string]int
	Now          time.Time
}

// Plan is the answer, one decision a member, in the order of names.
type Plan struct {
	Decisions []Decision
	// InFlight is how many machines are under remediation, those that begin now
	// included.
	InFlight int
	// After is when to plan again; zero when only a change can alter the plan.
	After time.Duration
}

// Make plans. What is under way is counted first, then steps that follow on others,
// then machines that had none; of these the newest goes first, as with a
// MachineSet: one that fails to come up carries no workload yet.
func Make(in Input) Plan {
	p := planner{Input: in, spare: in.SpareHosts, domainSpares: maps.Clone(in.DomainSpares), allFailing: allFailing(in.Members)}
	members := slices.Clone(in.Members)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	var next, fresh []Member
	for _, m := range members {
		switch d, open := p.current(m); {
		case !open:
			p.Decisions = append(p.Decisions, d)
		case m.Attempt != nil:
			next = append(next, m)
		default:
			fresh = append(fresh, m)
		}
	}
	for _, m := range append(next, fresh...) {
		p.Decisions = append(p.Decisions, p.begin(m))
	}
	slices.SortFunc(p.Decisions, func(a, b Decision) int { return cmp.Compare(a.Member, b.Member) })
	return p.Plan
}

// allFailing says whether every machine that stays, of at least two, fails. That is
// more often the network between than the hosts.
func allFailing(members []Member) bool {
	staying := 0
	for _, m := range members {
		if m.Leaving {
			continue
		}
		if !m.failing() {
			return false
		}
		staying++
	}
	return staying > 1
}

type planner struct {
	Input
	Plan
	spare        int
	domainSpares map[string]int
	allFailing   bool
}

// current decides on a member that needs no new step now; open is true for one
// that does.
func (p *planner) current(m Member) (_ Decision, open bool) {
	none := Decision{Member: m.Name, Kind: None}
	p.awaitBegin(m)
	switch {
	case m.Leaving:
		return p.leaving(m), false
	case m.Evacuate && m.Health == Unhealthy:
		return Decision{Member: m.Name, Kind: Defer, Message: "Its host is to be emptied: the pool replaces the machine as spec.strategy allows"}, false
	case m.Evacuate:
		return none, false
	case m.Skipped && (m.failing() || p.silentFor(m) || p.stuck(m)):
		return p.skipped(m), false
	case p.silentFor(m):
		return none, true
	case m.Attempt != nil && unfinished(m):
		if p.allFailing {
			return none, true
		}
		p.InFlight++
		return Decision{Member: m.Name, Kind: Begin, Attempt: *m.Attempt}, false
	case m.Attempt != nil && p.running(m):
		p.InFlight++
		return Decision{Member: m.Name, Kind: Wait, Message: p.waitMessage(m)}, false
	case m.Health == Unhealthy || p.stuck(m):
		return none, true
	case m.Health == Failing:
		return Decision{Member: m.Name, Kind: Defer, Message: "The MachineHealthCheck holds remediation back"}, false
	case m.Attempt == nil:
		return Decision{Member: m.Name, Kind: Recovered}, false
	}
	if left := m.Attempt.Since.Add(p.Policy.MinHealthyPeriod).Sub(p.Now); left > 0 {
		p.wake(left)
		return Decision{Member: m.Name, Kind: Recovered}, false
	}
	return Decision{Member: m.Name, Kind: Forget}, false
}

// skipped begins no step. The MachineHealthCheck keeps what it wrote before the Machine was
// annotated. A reboot that was requested goes on, and counts.
func (p *planner) skipped(m Member) Decision {
	if m.Attempt != nil && !unfinished(m) && p.running(m) {
		p.InFlight++
	}
	return Decision{Member: m.Name, Kind: Defer, Message: fmt.Sprintf("Not remediated because the Machine has annotation %s. Remove it to go on", clusterv1.MachineSkipRemediationAnnotation)}
}

func (p *planner) leaving(m Member) Decision {
	if m.Attempt == nil || (m.Attempt.Action == infrav1.RemediationReboot) {
		return Decision{Member: m.Name, Kind: None}
	}
	p.InFlight++
	if m.Attempt.Action == infrav1.RemediationRebootstrap && !m.Replaced && m.Claimed {
		return Decision{Member: m.Name, Kind: Pin}
	}
	return Decision{Member: m.Name, Kind: Wait}
}

// unfinished says whether a step was recorded that deletes the machine, and the
// deletion did not follow: the manager was stopped in between.
func unfinished(m Member) bool {
	return m.Health == Unhealthy && m.Attempt.Action != infrav1.RemediationReboot && m.Attempt.Replaces == ""
}

// running says whether the step of a member may still help.
func (p *planner) running(m Member) bool {
	begun := m.failing() || !m.Provisioned
	left := m.Attempt.Since.Add(p.timeout(m)).Sub(p.Now)
	if !begun || left <= 0 || (m.Attempt.Action == infrav1.RemediationReboot && m.RebootFailed) {
		return false
	}
	p.wake(left)
	return true
}

// stuck says whether a host that is bootstrapped anew does not come up. No
// MachineHealthCheck need say so: without a Node it may have nothing to look at.
func (p *planner) stuck(m Member) bool {
	return m.Attempt != nil && m.Attempt.Action == infrav1.RemediationRebootstrap && !m.Provisioned
}

func (p *planner) timeout(m Member) time.Duration {
	if m.Attempt.Step < len(p.Policy.Steps) {
		return p.Policy.Steps[m.Attempt.Step].Timeout
	}
	return 0
}

func (p *planner) wake(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func (p *planner) waitMessage(m Member) string {
	return fmt.Sprintf("Waiting until %s for %s to help", m.Attempt.Since.Add(p.timeout(m)).UTC().Format(time.RFC3339), m.Attempt.Action)
}

// begin begins the next step that is possible.
func (p *planner) begin(m Member) Decision {
	no := func(kind Kind, format string, args ...any) Decision {
		return Decision{Member: m.Name, Kind: kind, Message: fmt.Sprintf(format, args...)}
	}
	if p.silentFor(m) {
		return p.giveUpHost(m)
	}
	if !m.Claimed && m.Attempt == nil {
		return no(Defer, "The machine has no host yet; another one would not help. See condition %s of its HostMachine", infrav1.HostClaimedCondition)
	}
	step, ok := p.nextStep(m)
	switch {
	case !ok:
		return no(GiveUp, "No step of spec.remediation.steps is left or possible. Mend the host, or delete the Machine to replace it")
	case p.allFailing:
		return no(Defer, "Every machine of the pool is unhealthy, which is seldom the fault of each host. Check the network and the control plane; to replace a machine all the same, delete it")
	case p.InFlight >= p.Policy.MaxInFlight:
		return no(Defer, "Waiting because %d machines are under remediation already (spec.remediation.maxInFlight)", p.InFlight)
	}
	action := p.Policy.Steps[step].Action
	if action == infrav1.RemediationReplace && !m.Connected {
		if missing := p.takeSpare(m.Domain); missing != "" {
			p.wake(lookForHosts)
			return no(Defer, "The agent of the host is not connected, and %s. Mend the host or add one", missing)
		}
	}
	p.InFlight++
	m.Attempt = &Attempt{Step: step, Action: action, Since: p.Now}
	if action != infrav1.RemediationReplace {
		p.wake(p.timeout(m))
	}
	return Decision{Member: m.Name, Kind: Begin, Attempt: *m.Attempt, Message: p.waitMessage(m)}
}

// takeSpare takes a host for what replaces a machine. It says what is missing when there
// is none.
func (p *planner) takeSpare(domain string) string {
	switch {
	case p.spare <= 0:
		return "no other host is free and fits"
	case domain != "" && p.domainSpares[domain] <= 0:
		return fmt.Sprintf("no other host is free and fits in failure domain %s, which spec.spread asks for", domain)
	}
	p.spare--
	if domain != "" {
		p.domainSpares[domain]--
	}
	return ""
}

func (p *planner) nextStep(m Member) (int, bool) {
	first := 0
	if m.Attempt != nil {
		first = m.Attempt.Step + 1
	}
	for i := first; i < len(p.Policy.Steps); i++ {
		switch p.Policy.Steps[i].Action {
		case infrav1.RemediationReboot:
			if m.Provisioned && m.Connected {
				return i, true
			}
		case infrav1.RemediationRebootstrap:
			if m.Claimed && m.Connected {
				return i, true
			}
		default:
			return i, true
		}
	}
	return 0, false
}
