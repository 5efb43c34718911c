// Command kubernetes adds, renews and removes a Kubernetes version of the node bundle: it writes the requirements of
// its programs from what upstream itself says, its go.mod and kubeadm's constants, and a page of what differs from the
// version before, from what the programs of both say.
//
//	go run ./hack/kubernetes add v1.37.2
//	go run ./hack/kubernetes pin v1.37.2
//	go run ./hack/kubernetes page v1.37.2
//	go run ./hack/kubernetes remove v1.37
package main
