// Command kubeadm lists the images of a registry, as upstream's does.
package main

import (
	"fmt"
	"os"
)

var registry string

func main() {
	if len(os.Args) != 6 || os.Args[3] != "list" {
		os.Exit(2)
	}
	fmt.Println(registry + "/kube-apiserver:" + os.Args[5])
	fmt.Println(registry + "/pause:3.10.2")
}
