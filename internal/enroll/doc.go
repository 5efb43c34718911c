// Package enroll makes what a host needs to introduce itself to a plane: a
// bootstrap token, and where the two files belong that its agent starts from (what is
// in them is internal/agent/join's). From there on the agent has a certificate of its
// own (see docs/design/claims.md).
package enroll
