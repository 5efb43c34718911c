// Package probe asks a workload in local hosts over and over, so that a test can tell
// whether it answered all the time.
//
// Tests that bring up planes share it. It imports nothing of this repository.
package probe
