package doctor

import (
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
)

var _ = register(Check{
	Layer:  Extension + 2,
	Name:   "ExtensionLeftAlone",
	Means:  "handlers of a runtime extension failed repeatedly; they are paused, then probed",
	Remedy: "Repair the extension; its log has the calls. It is called again once it answers.",
	find: func(s *Snapshot) []Finding {
		return s.extensions(runtimev1alpha1.HandlersAvailableCondition, Error)
	},
})
