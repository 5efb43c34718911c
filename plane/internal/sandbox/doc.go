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
// All software of a host is confined, the init included (confine.go, mask.go): to the
// capabilities and system calls that a node needs. That makes it no boundary against root
// of the host, who may mount; docs/security.md tells what is left.
//
// It is imported by internal/localhost and cmd/slipway-sandbox. Since it is
// PID 1 of every host it imports the standard library, x/sys, and what the filter of
// system calls is made of: the assembler of x/net/bpf and a table of their numbers.
package sandbox
