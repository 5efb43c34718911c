// Package enroll gives the agent its identity: a key made once and kept for
// life, and an enrollment certificate that the management cluster signs for it
// (Kubernetes' own TLS bootstrapping). With that it asks for the certificates
// that the agent works with, each of a new key and for a day. It renews both in
// time and hands out a client configuration that follows without a restart. It may be
// imported by handover, by the agent's run and join, and by who makes their command lines.
package enroll
