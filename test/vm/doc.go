// Package vm boots real machines, Debian with systemd, a kernel of its own, sshd and
// nothing of Kubernetes, and makes hosts of them as an administrator does: with `slipway
// host add`. What sandboxes cannot show is shown here: an init system, units that are
// enabled or not, a distribution's files and tools, SSH, and a power cut.
//
//	debian.sh ──> Disk ──> Machine: Boot, Run (SSH), PowerCut, Snapshot
//
// A machine is a QEMU process without hardware acceleration, so it runs wherever the tests
// do, several times slower than a real one. Of its two network cards the first leads to
// sshd alone, by a port of 127.0.0.1, and the second is plugged into the bridge of a plane,
// in the plane's network namespace, where local hosts are its neighbours. Nothing of the
// machine that runs the tests is changed, and no packet leaves it.
//
// TestHost takes one machine, Debian 12 or with SUITE=trixie 13, through everything without
// reinstalling it: each refusal with its reason and nothing left behind; a disk that fills up
// during the install; a second run without changes; an agent that updates itself from a registry
// with TLS and a password; every remedy of preflight to the letter; a worker, a power cut, an
// upgrade in place through an outage of the registry and a power cut; a reset; a control plane
// that holds its address; removal, and a comparison of all files with those of before; the agent
// as a package. TestService takes a plane as a service through a power cut, TestPackage the
// package on a machine that no management cluster knows, and TestClean what a bootstrap does to
// systemd, dpkg and the kernel through the agent's record, reset and proof.
//
// `make test-vm` runs the tests. Nothing may import the package, which drives the programs
// that were built and imports nothing of them.
package vm
