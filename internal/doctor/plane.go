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
