package doctor

import (
	"cmp"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Enrollment + 1,
	Name:   "EnrollmentRefused",
	Means:  "the manager refused a certificate to an agent; the API server deletes such requests after an hour",
	Remedy: "Do what the message says. If the token was the reason, create one for this host and copy it there.",
	find: func(s *Snapshot) []Finding {
		return each(s.Requests, func(r *certificatesv1.CertificateSigningRequest) (Finding, bool) {
			denied := requestCondition(r, certificatesv1.CertificateDenied)
			if denied == nil || !s.asksFor(r) || s.enrolledAfter(r) {
				return none()
			}
			name := r.Labels[infrav1.HostLabel]
			f := atRequest(r).since(denied.LastTransitionTime.Time).next("slipway host token %s", name)
			if namespace := namespaceOf(r); namespace != "" {
				f = f.next("slipway host token %s -n %s", name, namespace)
			}
			f.Message = "the agent of host " + name + " got no certificate: " + cmp.Or(denied.Message, denied.Reason)
			return f, true
		})
	},
})

// enrolledAfter says whether a newer request for the same host mends the refusal: one of the
// same machine that has a certificate, or one by a bootstrap token, of a machine that came in
// its place. That the machine which is the host gets its next certificate, as it does every
// day, mends nothing for a clone of it.
func (s *Snapshot) enrolledAfter(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(s.Requests, func(other certificatesv1.CertificateSigningRequest) bool {
		byToken := strings.HasPrefix(other.Spec.Username, bootstrapapi.BootstrapUserPrefix)
		return len(other.Status.Certificate) > 0 && other.Labels[infrav1.HostLabel] == r.Labels[infrav1.HostLabel] &&
			other.CreationTimestamp.After(r.CreationTimestamp.Time) && namespaceOf(&other) == namespaceOf(r) &&
			(byToken || agentOf(&other) == agentOf(r))
	})
}

func requestCondition(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Type == kind && c.Status != corev1.ConditionFalse {
			return c
		}
	}
	return nil
}
