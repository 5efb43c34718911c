// Package serve assembles the plane and runs it: etcd, kube-apiserver, the
// manifests, a few Kubernetes controllers, and Cluster API. It is all of
// `slipway serve` but its flags and its network namespace.
//
// A plane owns one state directory:
//
//	lock             held while a plane runs; says which process
//	status.json      what runs, how far it is and where it listens
//	kubeconfig       the administrator's, mode 0600
//	plane.sock       /healthz, /readyz, /metrics and /openapi/ over HTTP
//	etcd/  pki/      the data, and the certificates
//
// The package imports every other package of the plane's API half.
package serve
