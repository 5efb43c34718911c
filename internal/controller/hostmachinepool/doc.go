// Package hostmachinepool keeps a pool of HostMachines at the size its MachinePool
// asks for, and tells core Cluster API about it as the InfraMachinePool contract
// wants. Each member is a HostMachine with a Machine of the same name (MachinePool
// Machines): the HostMachine controller does the work on hosts, this one decides
// how many there are, which go, and which change to another version.
//
// What it sees of the members, the bootstrap data and the hosts goes into
// internal/pool, which makes a plan; the steps of the plan are carried out here.
// Each member keeps what it was made from in its spec (version) and in a label
// (revision), since status is lost when a cluster moves.
//
// It may import the API types, internal/pool, internal/placement,
// internal/host and the utilities of Cluster API, but no other
// controller.
package hostmachinepool
