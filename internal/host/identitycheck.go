package host

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Twin is a host that shares an identity with another one.
type Twin struct {
	// Namespace and Name are empty for a host of another namespace: whose it is, and how
	// it is called, is the business of that tenant.
	Namespace, Name string
	// Shared is what they share: the key of the agent, or the machine-id.
	Shared string
}

// String names the host as far as the other one may know it.
func (t *Twin) String() string {
	if t.Name == "" {
		return "A Host of another namespace"
	}
	return fmt.Sprintf("Host %s/%s", t.Namespace, t.Name)
}

// TwinOf finds, of hosts, the first by name that has the key or the machine-id of h, in
// its namespace before others; nil when there is none. Between namespaces only the key
// counts: an agent proved that it has it, while the machine-id is only reported, and could let one
// tenant disable the host of another.
func TwinOf(h *infrav1.Host, hosts []infrav1.Host) *Twin {
	var first *Twin
	for i := range hosts {
		other := &hosts[i]
		near := other.Namespace == h.Namespace
		if near && other.Name == h.Name {
			continue
		}
		switch {
		case Successor(h, other), Successor(other, h):
			// One machine on its way, and claimed on neither side.
		case h.Spec.HostID != "" && other.Spec.HostID == h.Spec.HostID:
			first = nearer(first, other, near, "key")
		case near && h.Status.Inventory.MachineID != "" && other.Status.Inventory.MachineID == h.Status.Inventory.MachineID:
			first = nearer(first, other, near, "machine-id")
		}
	}
	return first
}

// nearer is the one of two twins that says more: a host of the same namespace, by name.
func nearer(first *Twin, other *infrav1.Host, near bool, shared string) *Twin {
	switch {
	case near && (first == nil || first.Name == "" || other.Name < first.Name):
		return &Twin{Namespace: other.Namespace, Name: other.Name, Shared: shared}
	case first == nil:
		return &Twin{Shared: shared}
	}
	return first
}

func duplicateIdentity(twin *Twin) metav1.Condition {
	c := metav1.Condition{Type: infrav1.DuplicateIdentityCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostIdentityUniqueReason}
	if twin == nil {
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, infrav1.HostDuplicateIdentityReason
	remedy := "give one of the machines a new /etc/machine-id (systemd-machine-id-setup) and reboot it"
	if twin.Shared == "key" {
		remedy = "on the machine that was cloned, stop slipway-agent, remove its state directory, enroll it under a name of its own, and delete the Host that is left over"
	}
	c.Message = fmt.Sprintf("%s has the same %s, as cloned disks have; neither is claimed until that is mended: %s", twin, twin.Shared, remedy)
	return c
}

// agentSupported compares the versions of agent and manager: the agent may be of the
// manager's minor version or of the one before, and never newer. Patch releases don't
// count. Builds without a release, and agents that have not reported, pass.
func agentSupported(h *infrav1.Host, managerVersion string) metav1.Condition {
	c := metav1.Condition{Type: infrav1.AgentSupportedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostAgentSupportedReason}
	agent, manager := minor(h.Status.Inventory.AgentVersion), minor(managerVersion)
	if agent == nil || manager == nil {
		c.Reason = infrav1.HostAgentVersionUnknownReason
		return c
	}
	switch oldest := version.MajorMinor(manager.Major(), max(manager.Minor(), 1)-1); {
	case manager.LessThan(agent):
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.HostAgentTooNewReason
		c.Message = fmt.Sprintf("The agent is of version %s, newer than the manager's %s. Upgrade the manager first", h.Status.Inventory.AgentVersion, managerVersion)
	case agent.LessThan(oldest):
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.HostAgentTooOldReason
		c.Message = fmt.Sprintf("The agent is of version %s; the manager, %s, works with agents from v%s on. %s", h.Status.Inventory.AgentVersion, managerVersion, oldest, upgradeAgent(h, managerVersion))
	}
	return c
}

// upgradeAgent says how the agent of a host becomes that of the manager's release.
func upgradeAgent(h *infrav1.Host, managerVersion string) string {
	if AgentManaged(h) {
		return fmt.Sprintf("The agent updates itself once the bundle of slipway-agent %s is loaded by `slipway bundle load`", managerVersion)
	}
	return "Upgrade slipway-agent on the host"
}

// AgentCurrent says whether the agent is of the manager's minor version, and so can all that
// the manager requires. Builds without a release, and agents that have not reported, pass.
func AgentCurrent(h *infrav1.Host, managerVersion string) bool {
	agent, manager := minor(h.Status.Inventory.AgentVersion), minor(managerVersion)
	return agent == nil || manager == nil || !agent.LessThan(manager)
}

// minor is a version without its patch; nil for one that is no release.
func minor(s string) *version.Version {
	v, err := version.ParseSemantic(s)
	if err != nil || (v.Major() == 0 && v.Minor() == 0) {
		return nil
	}
	return version.MajorMinor(v.Major(), v.Minor())
}

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
