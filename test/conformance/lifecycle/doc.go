// Package lifecycle proves that slipway-lifecycle survives kill -9 at every step
// boundary: nothing is done twice that must not be, and the hook passes in the end.
//
// The program is the real one, in a process of its own, with the rights of its
// manifests, and is ended by SIGKILL. All that it changes outside of itself goes
// through this package: writes to the management cluster and to the workload cluster
// through proxies, calls of webhook steps to their receiver. So a test can kill it at
// any of them, at two moments: when the effect has happened and its answer is on the
// way, and when the effect is on the way and has not happened.
//
// Both clusters are API servers; in the management cluster upstream's own Job
// controller makes the pods of Jobs. The kubelet alone is played: its pods end at once.
//
//	effects_test.go    which requests are effects; when to kill
//	proxy_test.go      between the program and an API server
//	replica_test.go    one process of the program
//	world_test.go      what all tests share: clusters, kubelet, receiver of webhooks
//	stage_test.go      a Cluster, its policies and who calls their hooks and decides
package lifecycle
