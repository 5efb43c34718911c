// Package assignment takes free hosts from one namespace to another of the same management
// cluster, in the name of the client's user: it writes spec.assignedNamespace
// of the Host here, makes the one there, waits until the agent has gone over, and deletes
// this one. Nothing is remembered between two runs: what is done is seen on the two Hosts,
// so the same command goes on where an earlier one ended. What the field means to the
// manager and the agent is internal/host's.
//
// It may import api and internal/host, and is imported by internal/cli.
package assignment
