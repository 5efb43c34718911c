// Package localhost is the rack of local hosts of one instance: it creates them,
// switches them on and off, cuts and heals their network, runs commands on them
// and takes them away without a trace.
//
// There is no daemon. Hosts run by themselves (see internal/sandbox) and all that
// is known of them is on disk, below <state dir>/hosts/<host>, so everything
// here works from any process, whether or not a plane runs, and after a crash at
// any point. Locks in the state directory keep two processes apart.
//
// Commands of the plane import it. It imports internal/network and
// internal/sandbox, nothing of Kubernetes.
package localhost
