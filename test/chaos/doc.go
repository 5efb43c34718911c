// Package chaos injects random faults into a plane with real kubelets and judges what
// follows. See docs/reliability.md.
//
// schedule plans the faults from a seed, faults_test.go injects them, observe writes down
// what happens, and judge looks for promises that were not kept:
//
//	seed → schedule → faults → plane → observe → history → judge
//
// It needs root and SLIPWAY_BIN, and nothing but the command line and the public APIs.
package chaos
