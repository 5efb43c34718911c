// Package inputs reads what placement decides from: what a machine asks of a host, and
// the hosts there are. Whoever claims a host and whoever explains a claim read it here,
// so that the explanation is the decision.
//
// It may import the API types, internal/host, internal/placement and the client of
// controller-runtime, but no controller. It writes nothing.
package inputs
