// Package upgrade brings the node on this host to another Kubernetes version, in place
// and without a new Machine. A worker:
//
//	mend ── check ── try ── cordon ── drain ── keep ── kubeadm upgrade node ── switch programs ── restart kubelet ── Ready ── finish ── uncordon
//
// A host of a control plane, of which at least two others serve on:
//
//	mend ── check ── try ── keep ── snapshot ── etcd ── kubeadm upgrade node ── static pods ── switch programs ── restart kubelet ── Ready ── finish
//
// It drains a Node before a reboot as before an upgrade, too:
//
//	check ── cordon ── drain ── check again ── reboot ── Ready in the next boot ── uncordon
//
// Every step may be repeated: after a crash the whole sequence runs again and what
// is done already is quickly found done. What the steps need to remember stands
// where it is written together with the effect: the mark of our own cordon on the
// Node, the former links of the programs in the journal.
//
// It may be imported by the package effects.
package upgrade
