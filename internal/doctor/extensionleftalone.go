package doctor

import (
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
)

var _ = register(Check{
	Layer:  Extension + 2,
	Name:   "ExtensionLeftAlone",
	Means:  "handlers of a runtime extension failed again and again; they are not called for a while, then probed",
	Remedy: "Mend the extension: its log has the calls. It is called again once it answers; nothing else is to be done.",
	find: func(s *Snapshot) []Finding {
		return s.extensions(runtimev1alpha1.HandlersAvailableCondition, Error)
	},
})
