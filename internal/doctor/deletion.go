package doctor

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// deletionPatience is how long a Machine may take to go: its Node is drained first.
	deletionPatience = 30 * time.Minute
	// refusalPatience is how long a Node may drain with evictions that are refused: a budget
	// often allows them minutes later.
	refusalPatience = 5 * time.Minute
)

// refusals are in Cluster API's message about a drain with refused evictions: by a
// PodDisruptionBudget, and for any other reason.
var refusals = []string{"cannot evict pod as it would violate the pod's disruption budget.", "failed to evict Pod, "}

var _ = register(Check{
	Layer:  Machines + 9,
	Name:   "DeletionStuck",
	Means:  "a Machine has been deleting for more than half an hour, or evictions of its Pods have been refused for five minutes",
	Remedy: "The message says what it waits for. A drain that a PodDisruptionBudget forbids ends when the pods may move, or at the Machine's `nodeDrainTimeoutSeconds`.",
	find: func(s *Snapshot) []Finding {
		return each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
			c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
			if m.DeletionTimestamp.IsZero() || s.Now.Sub(m.DeletionTimestamp.Time) < deletionPatience && !refused(m, c, s.Now) {
				return none()
			}
			f := atMachine(m, Warning).describe()
			f.Message = "it is being deleted"
			if c != nil {
				f = f.of(c)
			}
			if refused(m, c, s.Now) {
				f = f.next("kubectl --kubeconfig \"$(slipway kubeconfig %s -n %s)\" get poddisruptionbudgets -A", m.Spec.ClusterName, m.Namespace)
			}
			return f.since(m.DeletionTimestamp.Time), true
		})
	},
})

// refused reports whether a Machine has drained for refusalPatience and has refused evictions.
func refused(m *clusterv1.Machine, deleting *metav1.Condition, now time.Time) bool {
	if deleting == nil || m.Status.Deletion == nil || m.Status.Deletion.NodeDrainStartTime.IsZero() || now.Sub(m.Status.Deletion.NodeDrainStartTime.Time) < refusalPatience {
		return false
	}
	return slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(deleting.Message, refusal) })
}
