package doctor

import (
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
)

var _ = register(Check{
	Layer:  Housekeeping + 5,
	Name:   "HooksDeprecated",
	Means:  "an extension implements a version of a hook that goes away",
	Remedy: "Have its author move it to the version that the message names, before the management cluster is upgraded. `slipway check upgrade` tells what is in use.",
	find: func(s *Snapshot) []Finding {
		return s.extensions(runtimev1alpha1.HooksUpToDateCondition, Note)
	},
})
