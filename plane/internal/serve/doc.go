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
//	encryption/      the key that Secrets in etcd are encrypted with
//	apiserver/       configuration of the API server, and its audit log
//
// The package imports every other package of the plane's API half.
package serve
