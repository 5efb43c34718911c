// Package host lets hosts enroll, gives each agent exactly the rights it needs,
// judges its heartbeat, computes phase and conditions, and frees a host once it
// proved to be clean. What a phase means is in internal/host; this package does
// the reading and writing.
//
// It imports no other controller.
//
// The status of a Host has two owners by server-side apply: the agent owns what it
// reports, this controller owns phase and conditions and nothing else.
package host
