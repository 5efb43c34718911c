package remediation

import (
	"fmt"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// BeginDeadline is how long a claimed host may be silent before anything was begun on it:
// as long as a MachineHealthCheck waits for a Node by default (nodeStartupTimeoutSeconds).
const BeginDeadline = 10 * time.Minute

// silentFor says whether the host of a member has been silent for so long that the machine
// is given up for another host, which needs no MachineHealthCheck: nothing can be lost.
func (p *planner) silentFor(m Member) bool {
	return !m.UnbegunSince.IsZero() && !p.Now.Before(m.UnbegunSince.Add(BeginDeadline))
}

// awaitBegin makes the plan be made again at the deadline.
func (p *planner) awaitBegin(m Member) {
	if left := m.UnbegunSince.Add(BeginDeadline).Sub(p.Now); !m.UnbegunSince.IsZero() && left > 0 {
		p.wake(left)
	}
}

// giveUpHost gives up the machine on a silent host. A step of the policy would not do: they
// are for hosts on which something was begun.
func (p *planner) giveUpHost(m Member) Decision {
	wait := func(format string, args ...any) Decision {
		return Decision{Member: m.Name, Kind: Defer, Message: fmt.Sprintf(format, args...)}
	}
	if p.InFlight >= p.Policy.MaxInFlight {
		return wait("Its host went silent before its bootstrap began; %d machines are under remediation already (spec.remediation.maxInFlight)", p.InFlight)
	}
	if missing := p.takeSpare(m.Domain); missing != "" {
		p.wake(lookForHosts)
		return wait("Its host went silent before its bootstrap began, and %s. Mend the host or add one", missing)
	}
	p.InFlight++
	return Decision{
		Member: m.Name, Kind: Begin, Attempt: Attempt{Action: infrav1.RemediationReplace, Since: p.Now},
		Message: fmt.Sprintf("Given up: its host has been silent for more than %s, and its bootstrap has not begun", BeginDeadline),
	}
}
