package doctor

import (
	"cmp"
	"time"
)

var _ = register(Check{
	Layer:  Plane + 1,
	Name:   "PlaneNotReady",
	Means:  "the plane of this machine does not run, or one of its components is not ready",
	Remedy: "Run `slipway up` again: it goes on where it was. What keeps a component from its start is in plane.log of the state directory.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || s.Plane.Ready {
			return nil
		}
		f := Finding{Severity: Error, Object: Object{Kind: "Plane", Name: cmp.Or(s.Plane.Server, "of this machine")}, Message: cmp.Or(s.Plane.Message, "the plane is not ready")}
		return []Finding{f.next("slipway up")}
	},
})

var _ = register(Check{
	Layer:  Plane + 3,
	Name:   "PlaneNotReached",
	Means:  "the machine of the plane has lost the address at which hosts on other machines reach it: their agents wait, what runs on them goes on",
	Remedy: "Give the machine its address back, by a static one or a reservation of your DHCP server. With another one run `slipway up --listen ADDRESS`, and enroll the hosts again: they know the old one. A name, by --tls-san, spares them that.",
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
	Means:  "the plane of this machine ended by itself within the last day, and was started again; hosts and their clusters went on meanwhile",
	Remedy: "Report the crash with a support bundle, which has its trace. After SIGKILL see whether the machine ran out of memory: `dmesg` tells.",
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
	Means:  "the supervisor of this machine's plane has ended: the plane runs, and nobody starts it again after a crash",
	Remedy: "Run `slipway up` again: it starts the plane anew, with a supervisor. Hosts and their clusters go on meanwhile.",
	find: func(s *Snapshot) []Finding {
		if s.Plane == nil || !s.Plane.Unsupervised {
			return nil
		}
		f := Finding{Severity: Warning, Object: Object{Kind: "Plane", Name: s.Plane.Server}, Message: "the supervisor of the plane has ended"}
		return []Finding{f.next("slipway up")}
	},
})
