// Package vip holds the control-plane address of endpoint type HostVIP on one of
// the control-plane hosts. It may import hostos, link/backoff and link/kube.
//
//	Lease of the workload cluster ──> Keeper (who holds it) ──> Holder (one address) ──> Kernel
//
// A Keeper runs on every control-plane host and talks to the API server of its
// own host only, so that neither the management plane nor the address itself is
// needed for an election. The argument why two hosts never hold the address at
// the same time is in docs/design/vip.md.
//
// LocalServer is the client of that API server (server.go, prepare.go, credentials.go). It finds its
// address and certificate authority where kubeadm writes them. The client may read and update one
// Lease and nothing else: it has a certificate of its own, which the agent signs with the authority
// on the host and keeps in memory. admin.conf is used only to make the Lease and the Role for it,
// when they are missing. The kubelet's credential would be smaller still, but the admission plugin
// NodeRestriction keeps it from every Lease outside of kube-node-lease.
package vip
