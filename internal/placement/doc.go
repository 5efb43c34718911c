// Package placement chooses the host for a machine, in two halves.
//
// The first reads, and writes nothing: what a machine asks of a host (RequestFor), the hosts there
// are (Candidates), who else waits for one (Ahead, Waiting), and what is about to go (Leaving). Who
// claims a host and who explains a claim read it here, so that the explanation is the decision.
//
// The second is a pure function over a list of hosts (Chooser, in placement.go, capacity.go,
// explain.go and waiting.go): the same input always gives the same choice, and every host that was
// not chosen gets a reason a person can act on.
//
// It may import the API types, internal/host, the client of controller-runtime and the utilities of
// Cluster API, but no controller.
package placement
