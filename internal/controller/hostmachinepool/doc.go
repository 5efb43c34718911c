// Package hostmachinepool keeps a pool of HostMachines at the size its MachinePool
// asks for, and tells core Cluster API about it as the InfraMachinePool contract
// wants. Each member is a HostMachine with a Machine of the same name (MachinePool
// Machines): the HostMachine controller does the work on hosts, this one decides
// how many there are and which go.
//
// It may import the API types and the utilities of Cluster API, but no other
// controller.
package hostmachinepool
