package doctor

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// certificateNotice is how long before their end the certificates of a control plane are
// told of: kubeadm makes them for a year.
const certificateNotice = 30 * 24 * time.Hour

var _ = register(Check{
	Layer:  ControlPlane + 5,
	Name:   "CertificateExpires",
	Means:  "the certificates of a control-plane machine have expired, or do so within 30 days",
	Remedy: "Roll out the control plane: new machines have new certificates. `rollout.before.certificatesExpiryDays` of the KubeadmControlPlane does it in time.",
	find: func(s *Snapshot) []Finding {
		return each(s.Machines, func(m *clusterv1.Machine) (Finding, bool) {
			expires := m.Status.CertificatesExpiryDate
			if expires.IsZero() || expires.Sub(s.Now) > certificateNotice || !m.DeletionTimestamp.IsZero() {
				return none()
			}
			f := atMachine(m, Warning)
			f.Message = fmt.Sprintf("the certificates of the control plane on it end at %s", expires.UTC().Format(time.RFC3339))
			if !expires.After(s.Now) {
				f = f.since(expires.Time)
				f.Severity = Error
			}
			if owner := metav1.GetControllerOf(m); owner != nil && owner.Kind == "KubeadmControlPlane" {
				return f.next(`kubectl patch kubeadmcontrolplane %s -n %s --type=merge -p '{"spec":{"rollout":{"before":{"certificatesExpiryDays":30}}}}'`, owner.Name, m.Namespace), true
			}
			return f.describe(), true
		})
	},
})

func atMachine(m *clusterv1.Machine, severity Severity) Finding {
	f := at(clusterv1.GroupVersion, "Machine", m, severity)
	f.Cluster = m.Spec.ClusterName
	return f
}
