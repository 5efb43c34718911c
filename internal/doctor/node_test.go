package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// unready is a Node that has not been ready for long, as core's Machine says.
func unready(s *Snapshot, age time.Duration, reason, message string) {
	conditions := &s.Machines[0].Status.Conditions
	status := metav1.ConditionUnknown
	if reason == clusterv1.MachineNodeNotReadyReason || reason == clusterv1.MachineNodeDeletedReason {
		status = metav1.ConditionFalse
	}
	set(conditions, clusterv1.MachineNodeReadyCondition, status, reason, message)
	(*conditions)[len(*conditions)-1].LastTransitionTime = ago(age)
}

var _ = add([]testCase{
	{"a Node is unwell", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.NodeNotReadyReason, "kubelet is silent")
	}, []want{{"NodeUnwell", Error, machine1, 3 * time.Hour, "kubelet is silent", "describe"}}},
	{"a Node is unwell for longer than the machine says", func(s *Snapshot) {
		set(&s.HostMachines[0].Status.Conditions, clusterv1.ReadyCondition, "False", infrav1.NodeNotReadyReason, "for 5m0s")
		unready(s, 4*time.Hour, clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Kubelet stopped posting node status.")
	}, []want{{"NodeUnwell", Error, machine1, 4 * time.Hour, "Node h1 is not ready: Node.Ready: Kubelet stopped posting node status.", "on the host: systemctl restart kubelet"}}},
	{"a Node is unwell since a moment", func(s *Snapshot) {
		unready(s, time.Second, clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Kubelet stopped posting node status.")
	}, []want{{"NodeUnwell", Note, machine1, time.Second, "Node h1 is not ready", "on the host: systemctl restart kubelet"}}},
	{"the containerd of a Node hangs", func(s *Snapshot) {
		unready(s, time.Second, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: [container runtime is down, PLEG is not healthy]")
	}, []want{{"NodeUnwell", Note, machine1, time.Second, "container runtime is down", "on the host: systemctl restart containerd"}}},
	{"a Node is unwell since a minute", func(s *Snapshot) {
		unready(s, time.Minute, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: PLEG is not healthy")
	}, []want{{"NodeUnwell", Warning, machine1, time.Minute, "PLEG is not healthy", `kubectl --kubeconfig "$(slipway kubeconfig a -n prod)" describe node h1`}}},
	{"a Node is unwell for five minutes", func(s *Snapshot) {
		unready(s, 5*time.Minute, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: PLEG is not healthy")
	}, []want{{"NodeUnwell", Error, machine1, 5 * time.Minute, "PLEG is not healthy", "describe node h1"}}},
	{"the Node of a renamed host has another name", func(s *Snapshot) {
		unready(s, time.Minute, clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Kubelet stopped posting node status.")
		s.Machines[0].Status.NodeRef.Name = "h1.example.org"
	}, []want{{"NodeUnwell", Warning, machine1, time.Minute, "(host h1)", "on the host: systemctl restart kubelet"}}},
	{"a ready Node has a full disk", func(s *Snapshot) {
		set(&s.Machines[0].Status.Conditions, clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, "* Node.DiskPressure: kubelet has disk pressure")
	}, []want{{"NodeUnwell", Error, machine1, 3 * time.Hour, "Node h1 is not healthy: Node.DiskPressure: kubelet has disk pressure", "describe node h1"}}},
	{"a Node was deleted a moment ago", func(s *Snapshot) {
		unready(s, time.Second, clusterv1.MachineNodeDeletedReason, "Node h1 has been deleted while the Machine still exists")
	}, []want{{"NodeUnwell", Note, machine1, time.Second, "Node h1 has been deleted", "slipway host reboot h1 -n "}}},
	{"a host has had no Node for minutes", func(s *Snapshot) {
		s.Machines[0].Status.NodeRef.Name = ""
		unready(s, 9*time.Hour, clusterv1.MachineNodeInspectionFailedReason, "Waiting for a Node with spec.providerID slipway:///prod/h1 to exist")
	}, []want{{"NodeUnwell", Error, machine1, 3 * time.Hour, "The host is provisioned, and has no Node: Waiting for a Node", "describe"}}},
	{"a host has just been provisioned", func(s *Snapshot) {
		s.Machines[0].Status.NodeRef.Name = ""
		unready(s, 9*time.Hour, clusterv1.MachineNodeInspectionFailedReason, "Waiting for a Node with spec.providerID slipway:///prod/h1 to exist")
		conditions := s.HostMachines[0].Status.Conditions
		conditions[len(conditions)-1].LastTransitionTime = ago(time.Minute)
	}, nil},
	{"nobody sees into the cluster", func(s *Snapshot) {
		unready(s, time.Hour, clusterv1.MachineNodeConnectionDownReason, "Remote connection not established yet")
	}, nil},
	{"the machine of a Node that is unwell is being deleted", func(s *Snapshot) {
		unready(s, time.Hour, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: PLEG is not healthy")
		s.Machines[0].DeletionTimestamp = ptr.To(ago(time.Minute))
	}, nil},
}...)
