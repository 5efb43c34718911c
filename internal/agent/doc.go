// Package agent is the loop of slipway-agent: it watches one Host, decides what
// to do (Plan, a pure function of journal and spec), has an operation.Executor
// do it, and reports. The loop has no effect on the host of its own, so that
// thousands of agents with simulated executors run in one process.
//
//	watch ──> Loop.Observe ──> Plan(journal, spec) ──> Executor ──> journal ──> Reporter ──> Host.status
//
// It may import the API types, internal/host, client-go through the package
// kube, and the packages below it; never a controller.
package agent
