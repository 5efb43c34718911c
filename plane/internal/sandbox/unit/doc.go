// Package unit runs the services of a local host: a table of Units, a Supervisor
// that keeps their processes as the table and the requests say, and the answers
// of a `systemctl` for them, since kubeadm knows no other way to its kubelet.
//
//	Unit (data) ── record (state of one unit; pure: step decides, the clock is passed in)
//	                 └─ Supervisor.Run (one goroutine owns all records: exits, requests, ticks)
//	Supervisor.Systemctl(args) ── Serve (unix socket) ── Call (the systemctl program)
//
// Only internal/sandbox imports it. It imports the standard library and x/sys
// only, for it is part of the sandbox's PID 1.
package unit
