// Package etcd runs one etcd member inside the plane's process.
//
// Clients reach it on a unix socket in the data directory; there is no peer
// listener and no TCP port. Whoever may open the directory (mode 0700) may read
// everything in the plane, exactly as with the files of any etcd.
//
// The package imports component and etcd, nothing of Kubernetes.
package etcd
