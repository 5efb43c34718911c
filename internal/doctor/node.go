package doctor

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// nodePatience is how long a host that was provisioned may be without a Node, or its Node without a
// network: its kubelet starts then.
const nodePatience = 2 * time.Minute

var _ = register(Check{
	Layer:  Machines + 6,
	Name:   "NodeUnwell",
	Means:  "the Node of a machine is not ready or not healthy, was deleted while the machine exists, or never came; a note at first, a warning after a minute, an error after five",
	Remedy: "Check the Node, and the kubelet on the host. To replace the machine, delete its Machine, or let a MachineHealthCheck do it.",
	find: func(s *Snapshot) []Finding {
		machines := s.MachinesOnHosts()
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			unwell := condition(m.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse, infrav1.NodeNotReadyReason, infrav1.NodeDeletedReason)
			ready := condition(m.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionTrue)
			var trouble *NodeTrouble
			if machine := machines[client.ObjectKeyFromObject(m)]; machine != nil {
				trouble = NodeTroubleOf(machine)
			}
			switch {
			case unwell != nil && (trouble == nil || unwell.Reason == infrav1.NodeDeletedReason):
				f := atHostMachine(m, Error).of(unwell).describe()
				if unwell.Reason == infrav1.NodeDeletedReason {
					f = registerAgain(f, m)
				}
				return f, true
			case trouble == nil || unwell == nil && ready == nil || trouble.NoNetwork && s.settling(m):
				return none()
			case trouble.NoNetwork:
				f := troubled(s, m, trouble)
				f.Severity = Note // NoNetworkPlugin says how bad that is, once for all Nodes of the cluster
				return f, true
			case trouble.Node == "" && ready != nil:
				// Core has waited for the Node since before there was a host.
				if trouble.Since.Before(ready.LastTransitionTime.Time) {
					trouble.Since = ready.LastTransitionTime.Time
				}
				if s.Now.Sub(trouble.Since) < nodePatience {
					return none()
				}
			}
			return troubled(s, m, trouble), true
		})
	},
})

// settling says whether a host was provisioned a moment ago: the pod of its network plugin starts then, too.
func (s *Snapshot) settling(m *infrav1.HostMachine) bool {
	ready := condition(m.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionTrue)
	return ready != nil && s.Now.Sub(ready.LastTransitionTime.Time) < nodePatience
}

// registerAgain names the reboot with which a kubelet makes its Node once more: it does so with no
// other start.
func registerAgain(f Finding, m *infrav1.HostMachine) Finding {
	if m.Status.HostRef.Name == "" {
		return f.describe()
	}
	return f.next("slipway host reboot %s -n %s", m.Status.HostRef.Name, m.Namespace)
}

// What is said of a Node whose kubelet hangs, and by a kubelet whose container runtime does.
const (
	kubeletSilent = "Kubelet stopped posting node status"
	runtimeDown   = "container runtime is down"
)

// troubled is the finding of a Node in trouble.
func troubled(s *Snapshot, m *infrav1.HostMachine, trouble *NodeTrouble) Finding {
	f := atHostMachine(m, s.severityOn(s.Host(m.Namespace, m.Status.HostRef.Name), trouble.Since)).since(trouble.Since)
	f.Message = trouble.Message
	if h := m.Status.HostRef.Name; h != "" && h != trouble.Node {
		f.Message += fmt.Sprintf(" (host %s)", h)
	}
	switch {
	case trouble.Deleted:
		return registerAgain(f, m)
	case strings.Contains(trouble.Message, kubeletSilent):
		return f.next("on the host: systemctl restart kubelet")
	case strings.Contains(trouble.Message, runtimeDown):
		return f.next("on the host: systemctl restart containerd")
	case trouble.Node == "" || f.Cluster == "":
		return f.describe()
	}
	return f.next("kubectl --kubeconfig \"$(slipway kubeconfig %s -n %s)\" describe node %s", f.Cluster, m.Namespace, trouble.Node)
}
