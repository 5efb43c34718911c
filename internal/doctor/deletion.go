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
	// refusalPatience is how long it is a note that evictions of a Node's pods are refused: a budget
	// often allows them minutes later.
	refusalPatience = 5 * time.Minute
)

// refusals are in Cluster API's message about a drain with refused evictions: by a
// PodDisruptionBudget, and for any other reason.
var refusals = []string{"cannot evict pod as it would violate the pod's disruption budget.", "failed to evict Pod, "}

var _ = register(Check{
	Layer:  Machines + 9,
	Name:   "DeletionStuck",
	Means:  "a Machine has been deleting for more than half an hour, or evictions of its Pods are refused: a note for five minutes, then a warning",
	Remedy: "The message says what it waits for. A drain that a PodDisruptionBudget forbids ends when the pods may move, or at the Machine's `nodeDrainTimeoutSeconds`.",
	find: func(s *Snapshot) []Finding {
		return each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
			if m.DeletionTimestamp.IsZero() {
				return none()
			}
			c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
			late := s.Now.Sub(m.DeletionTimestamp.Time) >= deletionPatience
			f := atMachine(m, Warning).describe()
			f.Message = "it is being deleted"
			if c != nil {
				f = f.of(c)
			}
			if !refused(m, c) {
				return f.since(m.DeletionTimestamp.Time), late
			}
			begin := m.Status.Deletion.NodeDrainStartTime.Time
			if !late && s.Now.Sub(begin) < refusalPatience {
				f.Severity = Note
			}
			return f.since(begin).next("kubectl --kubeconfig \"$(slipway kubeconfig %s -n %s)\" get poddisruptionbudgets -A", m.Spec.ClusterName, m.Namespace), true
		})
	},
})

// refused reports whether evictions of a Machine's Pods are refused.
func refused(m *clusterv1.Machine, deleting *metav1.Condition) bool {
	return deleting != nil && m.Status.Deletion != nil && !m.Status.Deletion.NodeDrainStartTime.IsZero() &&
		slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(deleting.Message, refusal) })
}
