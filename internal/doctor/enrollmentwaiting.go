package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// requestPatience is how long the manager may take to answer a request: it does so at once.
const requestPatience = 2 * time.Minute

var _ = register(Check{
	Layer:  Enrollment + 2,
	Name:   "EnrollmentWaiting",
	Means:  "an agent requested a certificate more than two minutes ago, and nobody has decided or signed",
	Remedy: "Check that slipway-manager runs. An approved request without a certificate waits for the signer, kube-controller-manager.",
	find: func(s *Snapshot) []Finding {
		return each(s.Requests, func(r *certificatesv1.CertificateSigningRequest) (Finding, bool) {
			answered := requestCondition(r, certificatesv1.CertificateDenied) != nil || requestCondition(r, certificatesv1.CertificateFailed) != nil || len(r.Status.Certificate) > 0
			if answered || s.Now.Sub(r.CreationTimestamp.Time) < requestPatience || !s.asksFor(r) {
				return none()
			}
			f := atRequest(r).since(r.CreationTimestamp.Time).describe()
			f.Message = "the agent of host " + r.Labels[infrav1.HostLabel] + " waits for its certificate"
			if requestCondition(r, certificatesv1.CertificateApproved) != nil {
				f.Message += ", which is approved and not signed"
			}
			return f, true
		})
	},
})

func atRequest(r *certificatesv1.CertificateSigningRequest) Finding {
	return at(certificatesv1.SchemeGroupVersion, "CertificateSigningRequest", r, Error)
}

// asksFor says whether a request is for a host of the namespace in scope. One that says for
// none is told everywhere.
func (s *Snapshot) asksFor(r *certificatesv1.CertificateSigningRequest) bool {
	namespace := namespaceOf(r)
	return s.Scope.Namespace == "" || namespace == "" || namespace == s.Scope.Namespace
}

// namespaceOf is that of the host that a request is for; empty when it does not say.
func namespaceOf(r *certificatesv1.CertificateSigningRequest) string {
	namespace, _, _ := host.ParseAgentUser(agentOf(r))
	return namespace
}

// agentOf is the user name of the agent that a request is for, whichever of its certificates
// it asks for. It ends in the key of the machine: another one under the name of the host is
// another agent. Empty when the request does not say.
func agentOf(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	user := request.Subject.CommonName
	if agent := host.AgentOfEnrollment(user); agent != "" {
		return agent
	}
	if _, _, ok := host.ParseAgentUser(user); !ok {
		return ""
	}
	return user
}
