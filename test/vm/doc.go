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
// `make test-vm` runs the tests. Nothing may import the package, which drives the programs
// that were built and imports nothing of them.
package vm
