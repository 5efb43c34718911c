// Package step is what the executors of steps and the controller of LifecycleRuns
// agree on. It may import the API only.
package step
