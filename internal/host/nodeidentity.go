package host

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// nodeIdentityKept compares what was decided about the node with what the host says now; nil while it
// is the same, and on a host that is no node.
func nodeIdentityKept(h *infrav1.Host) *metav1.Condition {
	node := h.Status.Node
	if node == nil || len(h.Status.Addresses) == 0 {
		return nil
	}
	name := ""
	has := map[netip.Addr]bool{}
	var addresses []string
	for _, a := range h.Status.Addresses {
		if a.Type == clusterv1.MachineHostName {
			name = a.Address
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			has[ip.Unmap()] = true
			addresses = append(addresses, a.Address)
		}
	}
	replace := ""
	if h.Spec.Claim != nil {
		replace = fmt.Sprintf(". Otherwise replace it: kubectl delete machine %s -n %s", h.Spec.Claim.MachineName, h.Namespace)
	}
	condition := &metav1.Condition{Type: infrav1.NodeIdentityKeptCondition, Status: metav1.ConditionFalse}
	for _, address := range node.Addresses {
		if ip, err := netip.ParseAddr(address); err == nil && !has[ip.Unmap()] {
			condition.Reason = infrav1.HostNodeAddressMissingReason
			condition.Message = fmt.Sprintf("The host does not have %s, the address of Node %s; it has %s. "+
				"Give it the address back, by a static one or a reservation of the DHCP server%s", address, node.Name, strings.Join(addresses[:min(len(addresses), 4)], ", "), replace)
			return condition
		}
	}
	if node.HostName != "" && name != "" && !sameHostName(name, node.HostName) {
		condition.Reason = infrav1.HostRenamedReason
		condition.Message = fmt.Sprintf("The host was called %s when it was bootstrapped, and is called %s; its Node stays %s. "+
			"Set the name back on the host: hostnamectl set-hostname %s%s", node.HostName, name, node.Name, node.HostName, replace)
		return condition
	}
	return nil
}

// sameHostName compares names of hosts as DNS does: without case, and without the dot at the end.
func sameHostName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
