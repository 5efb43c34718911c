// Package bootstrapdata tells whether two versions of bootstrap data make the same
// machine. It is pure: the value of a bootstrap Secret in, a fingerprint out.
//
// Cluster API's kubeadm bootstrap provider rewrites the Secret of a MachinePool with
// a new token every few minutes. The token only opens the door to the cluster, so
// the fingerprint leaves it out; everything else counts.
//
// It may import no other package of this repository. No error quotes the data: it
// holds tokens and keys.
package bootstrapdata
