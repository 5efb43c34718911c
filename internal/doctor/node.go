package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var nodeNotReady = Check{
	Name:   "NodeUnwell",
	Means:  "the Node of a machine has not been ready for minutes while others of its cluster are, or was deleted while the machine lives",
	Remedy: "Look at the kubelet on the host. A machine that stays unwell is replaced when you delete its Machine, or by a MachineHealthCheck.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse, infrav1.NodeNotReadyReason, infrav1.NodeDeletedReason); c != nil {
				return atHostMachine(m, Error).of(c).describe(), true
			}
			return none()
		})
	},
}
