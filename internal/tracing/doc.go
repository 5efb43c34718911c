// Package tracing makes the spans of what happens over many reconciles: a trace from
// the claim of a HostMachine through the steps of the agent to the Node, and one of the
// steps of each LifecycleRun.
//
// A claim, an operation and a LifecycleRun have names that last: the claimID, the
// operationID and the UID. The IDs of a trace and of its root are made of such a name, and
// those of a part of it, such as a step of a run, of that and its own. So whoever
// reconciles, before and after a restart and in any replica, adds to the same trace; nothing
// has to be carried through the API, where somebody else could write it. The root is told
// when it ends, after its children.
//
// A nil Tracer makes no spans. The package imports nothing of this repository; who exports
// the spans is internal/tracing/otlp.
package tracing
