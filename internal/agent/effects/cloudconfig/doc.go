// Package cloudconfig reads the part of cloud-init's cloud-config that Cluster
// API's kubeadm bootstrap provider writes. It is pure: bytes in, a Config out;
// the package bootstrap carries it out.
//
// It is strict. A key that is not known or not supported is an error that names
// it, since bootstrap data that is carried out in part makes a broken node. No
// error quotes the data: it holds certificates and tokens.
package cloudconfig
