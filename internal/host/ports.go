package host

import "fmt"

// componentPorts are the ports at which components of a control-plane node listen, beside the API server.
var componentPorts = map[int32]string{
	2379: "etcd", 2380: "etcd", 2381: "etcd",
	10248: "the kubelet", 10250: "the kubelet", 10249: "kube-proxy", 10256: "kube-proxy",
	10257: "kube-controller-manager", 10259: "kube-scheduler",
}

// RefusePort says why the API servers of hosts cannot listen at a port; empty when they can.
func RefusePort(port int32) string {
	component, taken := componentPorts[port]
	if !taken {
		return ""
	}
	return fmt.Sprintf("%s of each control-plane host listens at %d, so that no API server does: use another port, such as 6443; "+
		"if a load balancer has the address, set endpoint type External", component, port)
}
