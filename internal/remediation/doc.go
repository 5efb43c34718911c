// Package remediation decides what a pool does about machines that a
// MachineHealthCheck found unhealthy: reboot the host, bootstrap it anew, or
// replace the machine. It is a pure function from the policy of the pool, the state
// of its members and a time to one decision for each member, so that every rule is
// a table test.
//
// What was tried on a machine is an Attempt, which the caller keeps in an annotation
// of the HostMachine: a move or a crash must not begin the steps anew.
//
// It may import only the API types and apimachinery.
package remediation
