package doctor

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Cluster API creates a HostMachine before its Machine, and creates another pair when its controller
// ended between the two (https://github.com/kubernetes-sigs/cluster-api/issues/1718).
var _ = register(Check{
	Layer:  Machines + 11,
	Name:   "HostMachineUnowned",
	Means:  "no Machine came for a HostMachine within a minute, as when the controller that creates both ended in between, or when somebody created it by hand; it has no host, and never gets one",
	Remedy: "Delete the HostMachine. Create machines by a Machine, a MachineDeployment or a MachinePool.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineWaitingForOwnerReason)
			if c == nil || !m.DeletionTimestamp.IsZero() || m.Spec.ProviderID != "" || m.Status.HostRef.Name != "" ||
				s.Now.Sub(m.CreationTimestamp.Time) < time.Minute || slices.ContainsFunc(m.OwnerReferences, isMachine) {
				return none()
			}
			maker := "Somebody"
			if len(m.OwnerReferences) > 0 {
				maker = m.OwnerReferences[0].Kind + " " + m.OwnerReferences[0].Name
			}
			f := atHostMachine(m, Warning).since(m.CreationTimestamp.Time).next("kubectl delete hostmachine %s -n %s", m.Name, m.Namespace)
			f.Message = fmt.Sprintf("%s created it, and no Machine that owns it: it waits for a host in vain", maker)
			return f, true
		})
	},
})

func isMachine(r metav1.OwnerReference) bool {
	return r.Kind == "Machine" || r.Kind == "MachinePool" || host.IsPool(r)
}
