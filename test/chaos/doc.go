// Package chaos injects random faults into a plane with real kubelets and judges what
// follows. See docs/reliability.md.
//
// schedule.go plans the faults from a seed: the same seed gives the same faults, hosts, sizes and
// pauses. faults_test.go injects them, watch.go and log.go write down what happens, by watches that
// survive the death of an API server, and judge looks for promises that were not kept:
//
//	seed → schedule → faults → plane → watches → history → judge
//
// It needs root and SLIPWAY_BIN, and nothing but the command line and the public APIs.
package chaos
