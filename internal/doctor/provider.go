package doctor

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var _ = register(Check{
	Layer:  Plane + 4,
	Name:   "ProviderUnavailable",
	Means:  "a provider of Cluster API has no ready pod: nothing that it is responsible for continues",
	Remedy: "Check its pods: `kubectl describe` says why one does not start, `kubectl logs` why it ends.",
	find: func(s *Snapshot) []Finding {
		return each(s.Providers, func(d *appsv1.Deployment) (Finding, bool) {
			for _, c := range d.Status.Conditions {
				if c.Type != appsv1.DeploymentAvailable || c.Status != corev1.ConditionFalse {
					continue
				}
				f := at(appsv1.SchemeGroupVersion, "Deployment", d, Error).since(c.LastTransitionTime.Time).describe()
				f.Message = fmt.Sprintf("%s has %d of %d replicas: %s", d.Labels[clusterv1.ProviderNameLabel], d.Status.AvailableReplicas, ptr.Deref(d.Spec.Replicas, 1), c.Message)
				return f, true
			}
			return none()
		})
	},
})
