// Package forward puts the API server of each workload cluster on 127.0.0.1 of
// the machine: one port a Cluster, kept over restarts, so that a kubeconfig once
// handed out stays good. Nothing of the machine's network is changed.
//
// It runs inside the plane (internal/cli sets it up) and is read by the commands through
// the file it writes. It may import internal/network.
package forward
