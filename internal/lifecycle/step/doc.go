// Package step has the kinds of steps, one file for each, and what they and the controller of
// LifecycleRuns agree on.
//
//	kinds.go   what a kind has to answer, and all kinds
//	step.go    what an attempt gets and returns, and what it works with
//	<kind>.go  a kind: what it says, needs, validates and does; large ones have a second file
//	schedule.go  when a maintenance window is open, pure; the tz database is compiled in, since
//	             images without one are common
//
// `make new-step-kind NAME=pause` writes the file of a kind, its test, and the field of the API. What
// is still missing then, a test says.
//
// It may import the API, expression, rights, workload and the SDK.
package step
