// Package step has the kinds of steps, one file for each, and what they and the controller of
// LifecycleRuns agree on.
//
// It may import the API, expression, schedule, rights, workload and the SDK.
package step
