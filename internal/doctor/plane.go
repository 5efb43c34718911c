package doctor

import (
	"cmp"
	"time"
)

var _ = register(Check{
	Layer:  Plane + 1,
	Name:   "PlaneNotReady",
	Means:  "the plane of this machine does not run, or one of its components is not ready; one that starts is a note at first, a warning after a minute, an error after five",
	Remedy: "Run `slipway up` again: it continues. plane.log of the state directory says why a component does not start.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || s.Plane.Ready {
			return nil
		}
		f := Finding{Severity: Error, Object: Object{Kind: "Plane", Name: cmp.Or(s.Plane.Server, "of this machine")}, Message: cmp.Or(s.Plane.Message, "the plane is not ready")}
		if s.Plane.Start == nil || s.Plane.Crashes != nil {
			return []Finding{f.next("slipway up")}
		}
		// It starts, and may be in the middle of it.
		f.Severity = s.severitySince(*s.Plane.Start)
		if f = f.since(*s.Plane.Start); f.Severity == Note {
			return []Finding{f.next("slipway status")}
		}
		return []Finding{f.next("slipway up")}
	},
})

var _ = register(Check{
	Layer:  Plane + 3,
	Name:   "PlaneNotReached",
	Means:  "the plane's machine has lost the address at which hosts on other machines reach it: their agents wait, their workload continues",
	Remedy: "Restore the address, as a static one or a DHCP reservation. With another one run `slipway up --listen ADDRESS` and enroll the hosts again, unless they know the plane by a name (--tls-san).",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || s.Plane.HostServerMessage == "" {
			return nil
		}
		f := Finding{Severity: Error, Object: Object{Kind: "Plane", Name: s.Plane.HostServer}, Message: s.Plane.HostServerMessage}
		return []Finding{f.next("ip -brief address")}
	},
})

// crashNotice is how long a crash of a plane that runs again is reported.
const crashNotice = 24 * time.Hour

var _ = register(Check{
	Layer:  Plane + 2,
	Name:   "PlaneCrashed",
	Means:  "the plane of this machine crashed within the last day, and was restarted; hosts and their clusters continued",
	Remedy: "Report the crash with a support bundle, which has its trace. After SIGKILL check with `dmesg` whether the machine ran out of memory.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || !s.Plane.Ready || s.Plane.Crashes == nil || s.Now.Sub(s.Plane.Crashes.Last) > crashNotice {
			return nil
		}
		f := Finding{Severity: Warning, Object: Object{Kind: "Plane", Name: s.Plane.Server}, Message: "the plane crashed " + s.Plane.Crashes.Summary(s.Now)}
		return []Finding{f.next("slipway support-bundle")}
	},
})

var _ = register(Check{
	Layer:  Plane + 2,
	Name:   "PlaneUnsupervised",
	Means:  "the supervisor of this machine's plane has ended: the plane runs, but is not restarted after a crash",
	Remedy: "Run `slipway up` again: it restarts the plane with a supervisor. Hosts and their clusters continue meanwhile.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || !s.Plane.Unsupervised {
			return nil
		}
		f := Finding{Severity: Warning, Object: Object{Kind: "Plane", Name: s.Plane.Server}, Message: "the supervisor of the plane has ended"}
		return []Finding{f.next("slipway up")}
	},
})
