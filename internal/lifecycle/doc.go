// Package lifecycle is the engine behind LifecyclePolicies: a runtime extension that
// answers Cluster API's lifecycle hooks from what operators declared.
//
//	Cluster API ──hook──> hooks ──find or create──> LifecycleRun
//	                        │ answers in milliseconds      │
//	                        └── from its spec <── run ─────┘  leader only, one step at a time
//	                                               │
//	                                 plan (pure) says what is next
//	                                 executor/* do it, one package for each kind
//
// A handler never works inline, and replicas share nothing but the API server. The
// run's spec is the only memory: it survives kill -9, and clusterctl move.
//
//	step        what executors and the controller agree on
//	executor/...  the executors
//	plan        pure: a run and the time in, the next action out
//	run         the controller of LifecycleRuns
//	policy      the controller of LifecyclePolicies
//	admission   validation of policies, decisions of people
//	hooks       the handlers of the hooks
//	match       which Clusters a policy is about
//	enforcement what holds Clusters without a topology back
//	expression  CEL with the libraries of Kubernetes and a cost limit
//	gate        evaluates the expression of a step over the namespace
//	schedule    maintenance windows, pure
//	jobspec     the Jobs of job steps, pure
//	endpoint    the URLs of webhook steps, pure
//	workload    clients of workload clusters
//	rights      what the engine may do in the namespaces of policies
//	manager     wires it all for cmd/slipway-lifecycle
//
// Packages below may import the API, the SDK, internal/tracing, and each other in this order: manager
// all; admission policy; run, policy and admission plan, step, rights and the pure packages;
// executors step, gate, workload, rights and the pure packages, never each other. test/imports has
// the rules.
package lifecycle
