// Package live is what tests that bring up planes share, so that they can run side by
// side on one machine: a name and a port for each plane, turns where the machine has no
// room for all, a look at the machine that tells one test's traces from another's, ways into a
// network namespace, an agent of the version before, and a prober that asks a workload over and
// over, so that a test can tell whether it answered all the time.
//
// It drives nothing: how a plane is used is up to each package of tests. Only tests may
// import it.
package live
