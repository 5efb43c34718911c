// Package upgrade brings the worker node on this host to another Kubernetes
// version, in place and without a new Machine:
//
//	check ── cordon ── drain ── kubeadm upgrade node ── switch programs ── restart kubelet ── Ready ── uncordon
//
// Every step may be repeated: after a crash the whole sequence runs again and what
// is done already is quickly found done. What the steps need to remember stands
// where it is written together with the effect: the mark of our own cordon on the
// Node, the former links of the programs in the journal.
//
// It may be imported by the package effects.
package upgrade
