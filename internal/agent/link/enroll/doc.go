// Package enroll gives the agent its identity: a key made once and kept for
// life, and a client certificate that the management cluster signs for it
// (Kubernetes' own TLS bootstrapping). It renews the certificate in time and
// hands out a client configuration that follows it without a restart. It may be
// imported by handover, by the agent's run and join, and by who makes their command lines.
package enroll
