// Package localapi is a client of the API server that runs on this control-plane
// host, for the election of who holds the control-plane address. It finds its
// address and certificate authority where kubeadm writes them.
//
// The client may read and update one Lease and nothing else: it has a certificate
// of its own, which the agent signs with the authority on the host and keeps in
// memory. admin.conf is used only to make the Lease and the Role for it, when
// they are missing. The kubelet's credential would be smaller still, but the
// admission plugin NodeRestriction keeps it from every Lease outside of
// kube-node-lease.
//
// It may be imported by the package effects.
package localapi
