// Package hostmachine ties a Machine to a Host: it claims a host, hands it the
// bootstrap operation, mirrors what the agent reports, and requests the reset when the
// machine is deleted. The protocol is in docs/design/claims.md.
//
// It may import the API types, internal/host, internal/placement and the
// utilities of Cluster API, but no other controller.
//
// Data flows one way: phases read and write objects and record what they saw in a
// scope; the conditions are computed from that scope once, at the end.
package hostmachine
