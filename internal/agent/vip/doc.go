// Package vip holds the control-plane address of endpoint type HostVIP on one of
// the control-plane hosts. It may import hostos, link/backoff and link/kube.
//
//	Lease of the workload cluster ──> Keeper (who holds it) ──> Holder (one address) ──> Kernel
//
// A Keeper runs on every control-plane host and talks to the API server of its
// own host only, so that neither the management plane nor the address itself is
// needed for an election. The argument why two hosts never hold the address at
// the same time is in docs/design/vip.md.
package vip
