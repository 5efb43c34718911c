// Package serve assembles the plane and runs it: etcd, kube-apiserver, the
// manifests, a few Kubernetes controllers, and Cluster API. It is all of
// `slipway serve` but its flags and its network namespace.
//
// What it keeps is in one state directory, of which statedir tells.
//
// The package imports every other package of the plane's API half.
package serve
