package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Health is what MachineHealthChecks say about a machine.
type Health string

const (
	// HealthUnknown means that no MachineHealthCheck looks at the machine.
	HealthUnknown Health = "Unknown"
	// Healthy means that it passes.
	Healthy Health = "Healthy"
	// Failing means that it fails, but that the MachineHealthCheck holds
	// remediation back: too many machines are unhealthy.
	Failing Health = "Failing"
	// Unhealthy means that it fails and that the pool is to remediate it.
	Unhealthy Health = "Unhealthy"
)

func (m Member) failing() bool { return m.Health == Unhealthy || m.Health == Failing }

// lookForHosts is how often to look whether a host became free.
const lookForHosts = 30 * time.Second

// DecisionKind is what becomes of a member now.
type DecisionKind string

const (
	// DecisionNone leaves it alone.
	DecisionNone DecisionKind = "None"
	// DecisionBegin begins Decision.Attempt.
	DecisionBegin DecisionKind = "Begin"
	// DecisionPin makes the machine that takes the place of a leaving one, on its host.
	DecisionPin DecisionKind = "Pin"
	// DecisionWait waits for the outcome of a step.
	DecisionWait DecisionKind = "Wait"
	// DecisionDefer would begin a step but must not now.
	DecisionDefer DecisionKind = "Defer"
	// DecisionGiveUp means that no step is left.
	DecisionGiveUp DecisionKind = "GiveUp"
	// DecisionRecovered means that the machine is healthy again: what is pending is over.
	DecisionRecovered DecisionKind = "Recovered"
	// DecisionForget drops the attempt: the steps begin anew next time.
	DecisionForget DecisionKind = "Forget"
)

// Decision is what becomes of one member.
type Decision struct {
	Member string
	Kind   DecisionKind
	// Attempt is the step that begins, with Begin.
	Attempt Attempt
	// Message tells a person why.
	Message string
}

// RemediationInput is what Remediate decides from.
type RemediationInput struct {
	Policy RemediationPolicy
	// Pool is what rollouts are planned over, too. Its free hosts, less the members that wait for
	// one, are the spares.
	Pool Pool
	Now  time.Time
}

// Remediation is the answer, one decision a member, in the order of names.
type Remediation struct {
	Decisions []Decision
	// InFlight is how many machines are under remediation, those that begin now
	// included.
	InFlight int
	// After is when to plan again; zero when only a change can alter the plan.
	After time.Duration
}

// Remediate plans. What is under way is counted first, then steps that follow on others,
// then machines that had none; of these the newest goes first, as with a
// MachineSet: one that fails to come up carries no workload yet.
func Remediate(in RemediationInput) Remediation {
	members := slices.DeleteFunc(slices.Clone(in.Pool.Members), func(m Member) bool { return !m.HostMachine })
	p := remedier{RemediationInput: in, members: members, spare: in.Pool.FreeHosts, allFailing: allFailing(members)}
	for _, m := range members {
		if !m.Leaving && !m.Claimed && !m.Pinned {
			p.spare--
		}
	}
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
	return p.Remediation
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

type remedier struct {
	RemediationInput
	Remediation
	members    []Member
	spare      int
	allFailing bool
	// domainOf tells where what replaces a member has to be, empty for anywhere; domainSpares
	// are the spares there. Both are made when a step first takes a spare host.
	domainOf     map[string]string
	domainSpares map[string]int
}

// current decides on a member that needs no new step now; open is true for one
// that does.
func (p *remedier) current(m Member) (_ Decision, open bool) {
	none := Decision{Member: m.Name, Kind: DecisionNone}
	p.awaitBegin(m)
	switch {
	case m.Leaving:
		return p.leaving(m), false
	case m.Evacuate && m.Health == Unhealthy:
		return Decision{Member: m.Name, Kind: DecisionDefer, Message: "Its host is to be emptied: the pool replaces the machine as spec.strategy allows"}, false
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
		return Decision{Member: m.Name, Kind: DecisionBegin, Attempt: *m.Attempt}, false
	case m.Attempt != nil && p.running(m):
		p.InFlight++
		return Decision{Member: m.Name, Kind: DecisionWait, Message: p.waitMessage(m)}, false
	case m.Health == Unhealthy || p.stuck(m):
		return none, true
	case m.Health == Failing:
		return Decision{Member: m.Name, Kind: DecisionDefer, Message: "The MachineHealthCheck holds remediation back"}, false
	case m.Attempt == nil:
		return Decision{Member: m.Name, Kind: DecisionRecovered}, false
	}
	if left := m.Attempt.Since.Add(p.Policy.MinHealthyPeriod).Sub(p.Now); left > 0 {
		p.wake(left)
		return Decision{Member: m.Name, Kind: DecisionRecovered}, false
	}
	return Decision{Member: m.Name, Kind: DecisionForget}, false
}

// skipped begins no step. The MachineHealthCheck keeps what it wrote before the Machine was
// annotated. A reboot that was requested goes on, and counts.
func (p *remedier) skipped(m Member) Decision {
	if m.Attempt != nil && !unfinished(m) && p.running(m) {
		p.InFlight++
	}
	return Decision{Member: m.Name, Kind: DecisionDefer, Message: fmt.Sprintf("Not remediated because the Machine has annotation %s. Remove it to go on", clusterv1.MachineSkipRemediationAnnotation)}
}

func (p *remedier) leaving(m Member) Decision {
	if m.Attempt == nil || (m.Attempt.Action == infrav1.RemediationReboot) {
		return Decision{Member: m.Name, Kind: DecisionNone}
	}
	p.InFlight++
	if m.Attempt.Action == infrav1.RemediationRebootstrap && !m.Replaced && m.Claimed {
		return Decision{Member: m.Name, Kind: DecisionPin}
	}
	return Decision{Member: m.Name, Kind: DecisionWait}
}

// unfinished says whether a step was recorded that deletes the machine, and the
// deletion did not follow: the manager was stopped in between.
func unfinished(m Member) bool {
	return m.Health == Unhealthy && m.Attempt.Action != infrav1.RemediationReboot && m.Attempt.Replaces == ""
}

// healthyMember says whether the step of a member may still help.
func (p *remedier) running(m Member) bool {
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
func (p *remedier) stuck(m Member) bool {
	return m.Attempt != nil && m.Attempt.Action == infrav1.RemediationRebootstrap && !m.Provisioned
}

func (p *remedier) timeout(m Member) time.Duration {
	if m.Attempt.Step < len(p.Policy.Steps) {
		return p.Policy.Steps[m.Attempt.Step].Timeout
	}
	return 0
}

func (p *remedier) wake(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func (p *remedier) waitMessage(m Member) string {
	return fmt.Sprintf("Waiting until %s for %s to help", m.Attempt.Since.Add(p.timeout(m)).UTC().Format(time.RFC3339), m.Attempt.Action)
}

// begin begins the next step that is possible.
func (p *remedier) begin(m Member) Decision {
	no := func(kind DecisionKind, format string, args ...any) Decision {
		return Decision{Member: m.Name, Kind: kind, Message: fmt.Sprintf(format, args...)}
	}
	if p.silentFor(m) {
		return p.giveUpHost(m)
	}
	if !m.Claimed && m.Attempt == nil {
		return no(DecisionDefer, "The machine has no host yet; another one would not help. See condition %s of its HostMachine", infrav1.HostClaimedCondition)
	}
	step, ok := p.nextStep(m)
	switch {
	case !ok:
		return no(DecisionGiveUp, "No step of spec.remediation.steps is left or possible. Mend the host, or delete the Machine to replace it")
	case p.allFailing:
		return no(DecisionDefer, "Every machine of the pool is unhealthy, which is seldom the fault of each host. Check the network and the control plane; to replace a machine all the same, delete it")
	case p.InFlight >= p.Policy.MaxInFlight:
		return no(DecisionDefer, "Waiting because %d machines are under remediation already (spec.remediation.maxInFlight)", p.InFlight)
	}
	action := p.Policy.Steps[step].Action
	if action == infrav1.RemediationReplace && !m.Connected {
		if missing := p.takeSpare(m); missing != "" {
			p.wake(lookForHosts)
			return no(DecisionDefer, "The agent of the host is not connected, and %s. Mend the host or add one", missing)
		}
	}
	p.InFlight++
	m.Attempt = &Attempt{Step: step, Action: action, Since: p.Now}
	if action != infrav1.RemediationReplace {
		p.wake(p.timeout(m))
	}
	return Decision{Member: m.Name, Kind: DecisionBegin, Attempt: *m.Attempt, Message: p.waitMessage(m)}
}

// takeSpare takes a host for what replaces a member. It says what is missing when there is none.
func (p *remedier) takeSpare(m Member) string {
	p.readDomains()
	domain := p.domainOf[m.Name]
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

// readDomains tells in which failure domain the replacement of each member would have to be. A
// host elsewhere is no spare to it.
func (p *remedier) readDomains() {
	if p.domainOf != nil {
		return
	}
	p.domainOf, p.domainSpares = map[string]string{}, map[string]int{}
	replacement := replacements(p.Pool)
	if replacement == nil {
		return
	}
	for _, m := range p.members {
		domain := replacement(m.Name)
		p.domainOf[m.Name] = domain.Name
		// A member that waits for a host counts that one as free for itself; to all others it
		// is not.
		if spare, found := p.domainSpares[domain.Name]; !found || domain.Free < spare {
			p.domainSpares[domain.Name] = domain.Free
		}
	}
}

func (p *remedier) nextStep(m Member) (int, bool) {
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

// BeginDeadline is how long a claimed host may be silent before anything was begun on it:
// as long as a MachineHealthCheck waits for a Node by default (nodeStartupTimeoutSeconds).
const BeginDeadline = 10 * time.Minute

// silentFor says whether the host of a member has been silent for so long that the machine
// is given up for another host, which needs no MachineHealthCheck: nothing can be lost.
func (p *remedier) silentFor(m Member) bool {
	return !m.UnbegunSince.IsZero() && !p.Now.Before(m.UnbegunSince.Add(BeginDeadline))
}

// awaitBegin makes the plan be made again at the deadline.
func (p *remedier) awaitBegin(m Member) {
	if left := m.UnbegunSince.Add(BeginDeadline).Sub(p.Now); !m.UnbegunSince.IsZero() && left > 0 {
		p.wake(left)
	}
}

// giveUpHost gives up the machine on a silent host. A step of the policy would not do: they
// are for hosts on which something was begun.
func (p *remedier) giveUpHost(m Member) Decision {
	wait := func(format string, args ...any) Decision {
		return Decision{Member: m.Name, Kind: DecisionDefer, Message: fmt.Sprintf(format, args...)}
	}
	if p.InFlight >= p.Policy.MaxInFlight {
		return wait("Its host went silent before its bootstrap began; %d machines are under remediation already (spec.remediation.maxInFlight)", p.InFlight)
	}
	if missing := p.takeSpare(m); missing != "" {
		p.wake(lookForHosts)
		return wait("Its host went silent before its bootstrap began, and %s. Mend the host or add one", missing)
	}
	p.InFlight++
	return Decision{
		Member: m.Name, Kind: DecisionBegin, Attempt: Attempt{Action: infrav1.RemediationReplace, Since: p.Now},
		Message: fmt.Sprintf("Given up: its host has been silent for more than %s, and its bootstrap has not begun", BeginDeadline),
	}
}
