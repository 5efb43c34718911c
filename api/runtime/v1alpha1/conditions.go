package v1alpha1

import runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

// PendingHooksAnnotation on a Host names the hook that has to pass before the host
// may be claimed again: AfterHostRelease. Removing it by hand skips the hook.
const PendingHooksAnnotation = "runtime.slipway.dev/pending-hooks"

// Conditions of a HostExtensionConfig, and of upstream's ExtensionConfig where
// our controller reconciles it.
const (
	// DiscoveredCondition is true while the extension answers discovery. It is
	// upstream's, with upstream's reasons.
	DiscoveredCondition = runtimev1.ExtensionConfigDiscoveredCondition

	// HandlersAvailableCondition is true while no handler is left alone because
	// calls of it failed.
	HandlersAvailableCondition = "HandlersAvailable"
	// HandlersAvailableReason: all handlers are called.
	HandlersAvailableReason = "Available"
	// HandlersBackingOffReason: the handlers in the message are left alone for a while.
	HandlersBackingOffReason = "BackingOff"

	// HooksUpToDateCondition is true while no handler implements a deprecated
	// version of its hook.
	HooksUpToDateCondition = "HooksUpToDate"
	// HooksUpToDateReason: no handler implements a deprecated version.
	HooksUpToDateReason = "UpToDate"
	// HooksDeprecatedReason: the handlers in the message do.
	HooksDeprecatedReason = "Deprecated"

	// NotDiscoveredReason: the handlers have never been known.
	NotDiscoveredReason = runtimev1.ExtensionConfigNotDiscoveredReason
)
