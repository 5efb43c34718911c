// Package link is what the agent has to do with its management cluster: it watches the
// Host and tells the loop, reports what the loop did, and renews the Lease. Its packages
// give the agent its identity (enroll), take it to another management cluster (handover),
// and hold the small part of the Kubernetes API it needs (kube, backoff). announced.go finds where
// the management cluster serves host bundles: the Lease of the host says so, which the agent may
// read, so that it follows the host to another management cluster.
//
// The room may import core, hostos/inventory for what it reports, run/config for the names of
// files, and internal/host.
package link
