// Package admission keeps bad LifecyclePolicies out and those that a deletion waits for in,
// and turns the annotations by which people decide into decisions of a LifecycleRun.
//
//	policy.go    the webhook of policies: Validate, and what only the API server knows
//	validate.go  Validate: the faults of a policy by itself, pure
//	deletion.go  policies and namespaces that a Cluster's deletion waits for are not deleted
//	cluster.go   Clusters without a topology wait for policies of enforcement All
//	run.go       the webhook of runs: who may decide, and that nobody else makes or changes one
//	decision.go  which decisions a run accepts now, pure
//
// It may import policy, rights, plan, step and expression.
package admission
