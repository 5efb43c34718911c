// Package statedir is what others know of a plane by its state directory: whether one serves
// it, what that tells of itself, and where its files are. They need nothing of what runs in a
// plane for that.
//
// A plane owns one state directory:
//
//	lock             held while a plane runs or its supervisor does; says which processes
//	status.json      what runs, how far it is and where it listens
//	crashes.json     how often the plane has crashed since `slipway up` started it
//	kubeconfig       the administrator's, mode 0600
//	plane.log        the log of a plane that `slipway up` starts, older ones as plane.log.1 to plane.log.4
//	plane.sock       /healthz, /readyz, /metrics and /openapi/ over HTTP
//	etcd/  pki/      the data, and the certificates
//	encryption/      the key that Secrets in etcd are encrypted with
//	apiserver/       configuration of the API server, and its audit log
//
// The plane and slipway-lifecycle write plane.log through one descriptor, which the Go runtime also writes the panic of a
// program to. A writer inside the process, such as lumberjack, would lose that. A plane that systemd runs logs to the journal.
//
//	lock.go         who holds the directory, and process.go ends it
//	log.go          plane.log: its size, its number of files, why the last plane ended
//	private.go      who reads a path with secrets
//	replaceable.go  who replaces what is at a path that root uses
//
// As cmd/slipway-sandbox has the supervisor, it imports the standard library, golang.org/x/sys, internal/component,
// internal/sandbox/process and internal/durable only.
package statedir
