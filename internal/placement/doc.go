// Package placement chooses the host for a machine, in two halves.
//
// The first reads, and writes nothing: what a machine requires of a host (RequestFor), the hosts of a
// namespace with all that they are judged by (Read), who else waits for one (Ahead, Waiting), and
// what is about to go (Leaving). Controllers that claim a host and commands that explain a claim read it
// here, so that the explanation is the decision.
//
// The second is pure: a Snapshot judges one host or ranks all of them for a request (Judge, Rank). The
// same snapshot always gives the same verdict, and every host that does not fit gets a reason a
// person can act on.
//
// It may import the API types, internal/host, the client of controller-runtime and the utilities of
// Cluster API, but no controller.
package placement
