// Package core is the loop of slipway-agent: it is told the spec of one Host, decides
// what to do (Plan, a pure function of journal and spec) and has an operation.Executor
// do it. The loop has no effect on the host of its own and knows no network, so that
// thousands of agents with simulated executors run in one process.
//
//	Loop.Observe ──> Plan(journal, spec) ──> Executor ──> journal ──> Loop.Changed
//
// The room imports the API types and no other room; every room may import its packages
// journal and operation.
package core
