package doctor

import (
	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
)

var _ = register(Check{
	Layer:  Housekeeping + 5,
	Name:   "HooksDeprecated",
	Effect: Remark,
	Means:  "an extension implements a deprecated version of a hook",
	Remedy: "Its author has to implement the version in the message before the management cluster is upgraded. `slipway check upgrade` lists what is in use.",
	find: func(s *Snapshot) []Finding {
		return s.extensions(runtimev1alpha1.HooksUpToDateCondition, Note)
	},
})
