// Package sandbox is one local host seen from inside: what its disk holds, how it
// boots, and the PID 1 that then runs its services. A host is a set of Linux
// namespaces with control groups of its own; to the software on it, it is a
// machine with systemd, containerd and a kubelet.
//
//	localhost.Manager ── launch ──> Launch: join cgroups, clone the namespaces, record the
//	                                init's PID, let it go, exit
//	                                  └─> Init (PID 1): mounts, pivot_root, files, network,
//	                                      then unit.Supervisor until it is told to stop
//	localhost.Manager ── exec ────> Exec: enter cgroups and namespaces of a running host
//
// Everything of a host is in one directory (Spec.Dir), that is its disk: /var, /opt
// and /root, and what differs from the machine's /usr and /etc. A host outlives
// the process that launched it. The machine's mounts, sysctls, host name and
// network are never touched.
//
// It is imported by internal/localhost and cmd/slipway-sandbox. Since it is
// PID 1 of every host it imports the standard library and x/sys only.
package sandbox
