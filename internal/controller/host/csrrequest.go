package host

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// request is what a CertificateSigningRequest asks for, as far as it can be
// judged without reading anything else.
type request struct {
	namespace, name string
	// user is the name of the agent that the certificate is for, whichever it is.
	user string
	// hostID is the identity of the key in the request; empty when that is a working key,
	// which says nothing about the machine.
	hostID string
	// token is the ID of the bootstrap token that filed it; empty when none did.
	token string
	// renewal is true when the agent itself asks, with a certificate it has.
	renewal bool
	// handedOver is true when the Host comes with a move.
	handedOver bool
	// refused is why the request is denied whatever the Host says.
	refused *refusal
}

// refusal is the reason and message of a denial.
type refusal struct{ reason, message string }

// parseRequest reads a request. ours is false when it is none of an agent, and so
// none of our business.
func parseRequest(csr *certificatesv1.CertificateSigningRequest) (_ *request, ours bool) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil, false
	}
	x509CSR, err := parsePEM(csr.Spec.Request)
	if err != nil {
		return nil, false
	}
	subject := x509CSR.Subject
	enrollment := is(subject, infrav1.EnrollmentUserPrefix, infrav1.EnrollmentGroup)
	if !enrollment && !is(subject, infrav1.AgentUserPrefix, infrav1.AgentGroup) {
		return nil, false
	}
	r := &request{}
	_, r.handedOver = csr.Labels[infrav1.HandOverLabel]
	group, prefix, parse := infrav1.AgentGroup, infrav1.AgentUserPrefix, host.ParseAgentUser
	if enrollment {
		group, prefix, parse = infrav1.EnrollmentGroup, infrav1.EnrollmentUserPrefix, host.ParseEnrollmentUser
	}
	var ok bool
	if r.namespace, r.name, ok = parse(subject.CommonName); !ok {
		return r.refuse(infrav1.HostRequestSubjectReason, "the common name must be %s<namespace>:<host>:<key>", prefix)
	}
	if problem := checkContent(x509CSR, csr.Spec.Usages, r.name, group); problem != "" {
		return r.refuse(infrav1.HostRequestInvalidReason, "%s", problem)
	}
	if !enrollment {
		return r.checkWorking(csr, subject.CommonName)
	}
	if r.hostID, err = host.ID(x509CSR.PublicKey); err != nil {
		return r.refuse(infrav1.HostRequestInvalidReason, "%v", err)
	}
	r.user = infrav1.AgentUser(r.namespace, r.name, r.hostID)
	if subject.CommonName != infrav1.EnrollmentUser(r.namespace, r.name, r.hostID) {
		return r.refuse(infrav1.HostRequestSubjectReason, "the last part of the common name is not that of the key")
	}
	return r.checkRequester(csr)
}

// is says whether a subject claims to be of a kind, by its name or by its group.
func is(subject pkix.Name, prefix, group string) bool {
	return strings.HasPrefix(subject.CommonName, prefix) || slices.Contains(subject.Organization, group)
}

func (r *request) refuse(reason, format string, args ...any) (*request, bool) {
	r.refused = &refusal{reason, fmt.Sprintf(format, args...)}
	return r, true
}

// checkWorking judges a request for a working certificate, which may be of any key: who
// asks has shown the key of the host by the enrollment certificate it asks with, and nobody
// else may ask. It must not last, so that a working key is of no use to who finds it later.
func (r *request) checkWorking(csr *certificatesv1.CertificateSigningRequest, user string) (*request, bool) {
	r.user, r.renewal = user, true
	if !slices.Contains(csr.Spec.Groups, infrav1.EnrollmentGroup) || host.AgentOfEnrollment(csr.Spec.Username) != user {
		return r.refuse(infrav1.HostRequesterNotAllowedReason, "user %s may not ask for a certificate of %s, only the enrollment certificate of that host may", csr.Spec.Username, user)
	}
	longest := int32(infrav1.AgentCertificateLifetime.Seconds())
	if lifetime := csr.Spec.ExpirationSeconds; lifetime == nil || *lifetime > longest {
		return r.refuse(infrav1.HostRequestInvalidReason, "spec.expirationSeconds must be %d at most", longest)
	}
	return r, true
}

// checkRequester checks who requests an enrollment certificate: a bootstrap token of the host or
// of its namespace, or the host by its enrollment certificate. A working certificate requests
// nothing.
func (r *request) checkRequester(csr *certificatesv1.CertificateSigningRequest) (*request, bool) {
	if slices.Contains(csr.Spec.Groups, infrav1.EnrollmentGroup) && r.sameMachine(csr.Spec.Username) {
		r.renewal = true
		return r, true
	}
	all, one := infrav1.BootstrapGroupPrefix+r.namespace, infrav1.HostBootstrapGroup(r.namespace, r.name)
	if slices.Contains(csr.Spec.Groups, all) || slices.Contains(csr.Spec.Groups, one) {
		if id, isToken := strings.CutPrefix(csr.Spec.Username, bootstrapapi.BootstrapUserPrefix); isToken {
			r.token = id
		}
		return r, true
	}
	if slices.ContainsFunc(csr.Spec.Groups, func(group string) bool { return strings.HasPrefix(group, all+":") }) {
		return r.refuse(infrav1.HostNotAllowedReason, "the bootstrap token of %s is bound to other hosts of namespace %s: "+
			"make one for host %s, or give this machine one of their names", csr.Spec.Username, r.namespace, r.name)
	}
	return r.refuse(infrav1.HostRequesterNotAllowedReason, "user %s is neither the agent of the host nor in group %s or %s: "+
		"use a bootstrap token with one of them in auth-extra-groups", csr.Spec.Username, one, all)
}

// sameMachine says whether an enrollment certificate is of the host that asks, in whichever
// namespace: one that is assigned to another has a certificate of the one it leaves. Who
// made a Host with its key there had the right to have it come.
func (r *request) sameMachine(enrollment string) bool {
	namespace, name, ok := host.ParseEnrollmentUser(enrollment)
	return ok && name == r.name && enrollment == infrav1.EnrollmentUser(namespace, name, r.hostID)
}

// isOf says whether a Host is that of the machine which asks.
func (r *request) isOf(h *infrav1.Host) bool {
	if r.hostID != "" {
		return h.Spec.HostID == r.hostID
	}
	return h.Spec.HostID != "" && infrav1.AgentUser(h.Namespace, h.Name, h.Spec.HostID) == r.user
}

func parsePEM(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("no PEM block of type CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return parsed, parsed.CheckSignature()
}

// allowedUsages are those of a client certificate; key encipherment is asked for
// with RSA keys only.
var allowedUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment,
}

// checkContent returns what a certificate of an agent must not hold, or "".
func checkContent(csr *x509.CertificateRequest, usages []certificatesv1.KeyUsage, name, group string) string {
	if !slices.Equal(csr.Subject.Organization, []string{group}) {
		return fmt.Sprintf("the organization must be exactly %s", group)
	}
	if len(csr.Subject.Names) != 2 {
		return "the subject must hold a common name and an organization only"
	}
	if len(csr.DNSNames)+len(csr.EmailAddresses)+len(csr.IPAddresses)+len(csr.URIs) > 0 {
		return "subject alternative names are not allowed"
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Sprintf("the host name %q is not valid: %s", name, strings.Join(problems, "; "))
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return "the usage client auth is missing"
	}
	for _, usage := range usages {
		if !slices.Contains(allowedUsages, usage) {
			return fmt.Sprintf("the usage %s is not allowed", usage)
		}
	}
	return ""
}
