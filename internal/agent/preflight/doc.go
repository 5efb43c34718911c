// Package preflight tells the operator of a Linux host with systemd what it lacks to
// become a Kubernetes node, before slipway-agent enrolls it. It changes nothing.
//
//	Host (a small interface: files, programs, a dial) ── checks (pure, in the order of
//	the table in Run) ── Report ── table or JSON
//
// Each finding comes with the command that mends it, in the words of the host's own
// distribution. cmd/slipway-agent imports it.
package preflight
