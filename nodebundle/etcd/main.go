// Command etcd is the etcd server of a local cluster's control-plane nodes, of
// the version kubeadm pairs with the bundle's Kubernetes.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
