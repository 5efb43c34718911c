package host

// FewestControlPlanes is how many hosts a control plane, or members its etcd, must have for one to be away: with fewer, the
// others are no quorum of etcd.
const FewestControlPlanes = 3
