// Package extensionconfig keeps the registry of runtime extensions in step with
// the objects that register them.
//
// One reconciler serves two kinds: upstream's ExtensionConfig, and our
// HostExtensionConfig for the hooks of this provider; a Kind holds what differs.
// A reconcile fills in the CA bundle, asks the extension for its handlers, writes
// what it learnt to the status and registers the handlers:
//
//	Secret ── CA ──> object ── discovery ──> status.handlers, conditions ──> registry
//
// An extension that does not answer never stops the manager. Its last known
// handlers stay registered under the current spec; if it has never been discovered,
// calls for the objects that it selects fail with a clear error, since nobody knows
// whether one of its handlers would have refused them.
//
// Status and registry do not depend on which replica writes: handlers are ordered,
// and messages are the same for the same cause.
//
// The package may import the SDK and the API packages, and no other controller.
package extensionconfig
