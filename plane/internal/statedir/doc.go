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
//	plane.sock       /healthz, /readyz, /metrics and /openapi/ over HTTP
//	etcd/  pki/      the data, and the certificates
//	encryption/      the key that Secrets in etcd are encrypted with
//	apiserver/       configuration of the API server, and its audit log
//
// It is imported by internal/serve and internal/supervisor, which write what is read here, and by the commands. As
// cmd/slipway-sandbox has the supervisor, it imports the standard library, golang.org/x/sys, internal/component,
// internal/sandbox/process and internal/durable only.
package statedir
