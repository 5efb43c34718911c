// Package run is the controller of LifecycleRuns: it does what package plan says is
// next, and writes down what was done. It runs in the leader only.
//
//	readCluster, readPolicy   facts
//	cancel                    gives the run up when nothing wants it any more
//	adopt                     takes over a changed policy
//	pin                       records the content that steps refer to
//	advance                   begins, executes and ends steps, one after the other
//	report                    the status, a view of the spec
//
// A run is read live before a step is executed, and every write of its spec
// is conditional on what was read. So two controllers cannot both go on with a run, and
// one that is killed at any point loses at most the memory of an attempt, which is then
// repeated with the same names.
//
// ClusterReconciler sums the runs of a Cluster up in its condition LifecycleReady.
//
// Events, on the LifecycleRun and its Cluster: StepBegan, StepSucceeded, StepSkipped,
// StepFailed, AttemptFailed, StepRetried, PolicyAdopted, RunSucceeded, RunCancelled.
//
// Metrics: slipway_lifecycle_runs, slipway_lifecycle_blocked_seconds,
// slipway_lifecycle_step_duration_seconds, slipway_lifecycle_attempt_failures_total.
//
// It may import expression, plan, rights, step and internal/tracing.
package run
