// Package engine is the engine behind LifecyclePolicies: a runtime extension that
// answers Cluster API's lifecycle hooks from what operators declared.
//
//	Cluster API ──hook──> hooks ──find or create──> LifecycleRun
//	                        │ answers in milliseconds      │
//	                        └── from its spec <── run ─────┘  leader only, one step at a time
//	                                               │
//	                                 plan (pure) says what is next
//	                                 step does it, one file for each kind
//
// A handler never works inline, and replicas share nothing but the API server. The
// run's spec is the only memory: it survives kill -9, and clusterctl move.
//
//	step        the kinds of steps, one file for each
//	plan        pure: a run and the time in, the next action out
//	run         the controller of LifecycleRuns
//	policy      the controller of LifecyclePolicies
//	admission   validation of policies, decisions of people
//	hooks       the handlers of the hooks
//	expression  CEL with the libraries of Kubernetes and a cost limit; which Clusters a policy is about
//	workload    clients of workload clusters
//	rights      what the engine may do in the namespaces of policies
//
// This package wires them for cmd/slipway-lifecycle: options with their flags, the cache, the
// runtime extension, the webhooks and the controllers. Every replica answers hooks and webhooks;
// only the leader executes.
//
// They import the API, the SDK, internal/tracing, and each other in this order: engine; admission;
// run, policy, hooks; plan; step; all others. Nothing but the command imports engine. test/imports
// has the rules.
package engine
