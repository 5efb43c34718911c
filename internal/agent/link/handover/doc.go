// Package handover takes the agent of a host from one management cluster to another
// (docs/design/move.md), and to another namespace of the same one.
//
// A Keeper does the first. While a cluster serves the host, the agent learns from it who signs
// hand-overs, and prepares the one it announces: it reads and verifies it, makes sure that the
// other cluster can be reached, keeps it on disk, and says so. It leaves only for another that
// shows the very same host, when the first says that it has no such Host any more, or does not
// answer and an operator says there that it is gone.
//
// A Follower does the second, when the Host says so (spec.assignedNamespace): the agent asks for
// certificates there with those of here, makes sure that the Host there is its own, and writes down
// that it lives there.
//
// It may import the agent's packages enroll, backoff and kube, and internal/host.
package handover
