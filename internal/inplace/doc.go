// Package inplace implements the hooks of in-place updates, CanUpdateMachineSet, CanUpdateMachine
// and UpdateMachine: whether Cluster API can update Machines in place, and the update itself.
//
//	CanUpdateMachineSet ── what differs? (plan.go, pure) ── do the hosts offer it? ──> the patch, or none
//	UpdateMachine ── is it due? (the API server) ──> HostMachine.spec.version ──> the host's report ──> done, or retry
//
// What can be updated in place is the Kubernetes version, by one minor version at most and
// never down; of a control plane, when it has three Machines or more. The requirements on hosts
// (selector, capacity, preferences) can be, too, where the hosts that the Machines have satisfy it: Cluster API
// writes that into the HostMachines, and nothing is done on the hosts. A change of anything
// else is answered without a patch: then Cluster API replaces the Machines, or must not,
// where an annotation says that only an update in place will do. While another Machine of a
// control plane is away, the answer is an error: the rollout waits.
//
// Nothing is remembered here. An operation is in HostMachine.spec.version, from where the
// provider passes it on to the host, as it does for pools; an update is done when the host,
// by the operation in its spec and the agent's report on that very operation, runs the version.
// Each replica answers, and after a restart another goes on.
//
// The package may import the API packages, internal/host, internal/placement and the SDK. internal/manager
// serves it.
package inplace
