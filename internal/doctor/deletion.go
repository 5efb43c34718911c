package doctor

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// deletionPatience is how long a Machine may take to go: its Node is drained first.
const deletionPatience = 30 * time.Minute

var deletionStuck = Check{
	Name:   "DeletionStuck",
	Means:  "a Machine has been on its way out for more than half an hour",
	Remedy: "The message says what it waits for. A drain that a PodDisruptionBudget forbids ends when the pods may move, or at the Machine's `nodeDrainTimeoutSeconds`.",
	find: func(s *Snapshot) []Finding {
		return each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
			if m.DeletionTimestamp.IsZero() || s.Now.Sub(m.DeletionTimestamp.Time) < deletionPatience {
				return none()
			}
			f := atMachine(m, Warning).describe()
			f.Message = "it is being deleted"
			if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition); c != nil {
				f = f.of(c)
			}
			return f.since(m.DeletionTimestamp.Time), true
		})
	},
}
