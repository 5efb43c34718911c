// Package localetcd is a client of the etcd member on this control-plane host. It finds
// endpoint and certificates where kubeadm's manifest names them, and speaks HTTP and JSON,
// which every member serves beside gRPC.
//
// It may be imported by the package effects.
package localetcd
