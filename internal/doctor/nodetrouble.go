package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// networkNotReady is the reason by which a kubelet says that its container runtime found no
// network plugin, in the message of its Node's condition Ready.
const networkNotReady = "NetworkPluginNotReady"

// NodeTrouble is what is wrong with the Node of a machine.
type NodeTrouble struct {
	// Node is its name; empty before the machine has one.
	Node string
	// Message names the Node and what it or core says of it.
	Message string
	// Since is when the trouble began, by the Node's own condition where it has one.
	Since time.Time
	// Deleted means that the Node was there, and its machine lives on without it.
	Deleted bool
	// NoNetwork means that the kubelet reports, and waits for a network plugin.
	NoNetwork bool
}

// NodeTroubleOf returns what is wrong with the Node of a machine whose host was provisioned, from
// the first moment, or nil: no grace is taken off. It reads what core's Machine says of the Node,
// as nobody but core looks into the workload cluster. What core cannot see is no trouble of a Node,
// and neither is that of a machine which is being deleted.
func NodeTroubleOf(m *clusterv1.Machine) *NodeTrouble {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	node := m.Status.NodeRef.Name
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		says := nodeSays(c)
		found := &NodeTrouble{Node: node, Since: c.LastTransitionTime.Time, NoNetwork: strings.Contains(c.Message, networkNotReady)}
		switch {
		case c.Reason == clusterv1.MachineNodeDeletedReason:
			found.Message, found.Deleted = says, true
		case node == "" && c.Reason == clusterv1.MachineNodeInspectionFailedReason && m.Spec.ProviderID != "":
			found.Message = "The host is provisioned, and has no Node: " + says
		case node == "":
			return nil
		case kind == clusterv1.MachineNodeReadyCondition && (c.Reason == clusterv1.MachineNodeNotReadyReason || c.Reason == clusterv1.MachineNodeReadyUnknownReason):
			found.Message = fmt.Sprintf("Node %s is not ready: %s", node, says)
		case kind == clusterv1.MachineNodeHealthyCondition && c.Reason == clusterv1.MachineNodeNotHealthyReason:
			found.Message = fmt.Sprintf("Node %s is not healthy: %s", node, says)
		default:
			continue
		}
		return found
	}
	return nil
}

// nodeSays is core's message in one line, without the marks of its list.
func nodeSays(c *metav1.Condition) string {
	var lines []string
	for line := range strings.SplitSeq(c.Message, "\n") {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "* "); line != "" {
			lines = append(lines, line)
		}
	}
	return cmp.Or(strings.Join(lines, "; "), c.Reason)
}
