// Package hostmachinetemplate keeps the status of HostMachineTemplates, from which
// the cluster autoscaler learns what a machine would have when there is none yet
// (Cluster API's proposal "Opt-in Autoscaling from Zero").
//
// It may import the API types, internal/placement and the utilities of Cluster API,
// but no other controller.
package hostmachinetemplate
