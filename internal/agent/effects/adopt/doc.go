// Package adopt takes over the worker node that runs on this host, joined by kubeadm
// without the agent:
//
//	check ── baseline ── kubelet arguments ── providerID of the Node ── record
//
// Nothing is started, stopped or restarted. The providerID is the point of no return,
// since the API server lets nobody change it again: all that can refuse comes before
// it, and of what is written before it everything is taken back when it does not
// come. Every step may be repeated.
//
// It may be imported by the package effects.
package adopt
