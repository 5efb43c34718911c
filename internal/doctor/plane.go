package doctor

import "cmp"

var planeNotReady = Check{
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
}

var planeNotReached = Check{
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
}
