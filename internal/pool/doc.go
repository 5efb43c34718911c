// Package pool plans what becomes of the machines of a HostMachinePool. It is pure. Observe makes one
// Member of each HostMachine and its Machine; a Pool of them is what both plans are made of, and
// the same pool always gives the same plans, whatever order its members come in:
//
//	MakePlan   what brings the pool nearer to its size, its version and its revision: a list of
//	           steps with a reason each, and what holds the rest back
//	Remediate  one decision for each member that a MachineHealthCheck found unhealthy: reboot the
//	           host, bootstrap it anew, or replace the machine
//
// What MakePlan keeps, if its steps are carried out in order and whether or not all of them are:
//
//   - It never takes the available members below desired - maxUnavailable, and below
//     what there is when that is less already. A member that scaling down removes
//     because of its mark (Member.Marked) is the one exception.
//   - It never takes the members that are not leaving above desired + maxSurge.
//   - It never takes a member from a host that is to be emptied before another host is
//     free for the one in its place.
//   - It never removes for size what it created, unless the desired size changed.
//
// What was tried on a machine is an Attempt, which the caller keeps in an annotation of the
// HostMachine: a move or a crash must not begin the steps anew.
//
// Fingerprint says whether two versions of bootstrap data make the same machine. Cluster API's
// kubeadm bootstrap provider rewrites the Secret of a MachinePool with a new token every few
// minutes, which the fingerprint leaves out; everything else counts. No error quotes the data: it
// has tokens and keys.
//
// It may import the API types and apimachinery, and neither a client, a context nor a clock.
package pool
