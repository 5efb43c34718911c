package host_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/host"
)

// enrollment is one request, described by how it differs from a good one.
type enrollment struct {
	// user and group file the request; the bootstrap token of the namespace
	// when empty.
	user, group string
	// host is the name of the host; h1 when empty.
	host       string
	commonName string
	subject    func(*pkix.Name)
	template   func(*x509.CertificateRequest)
	usages     []certificatesv1.KeyUsage
	signer     string
	// existing is the identity of a Host of that name; there is none when nil.
	existing *string
	// handedOver says that the Host comes with a move.
	handedOver bool
	// lifetime is that which is asked for, in seconds; none when zero.
	lifetime int32
}

func TestEnrollment(t *testing.T) {
	const ns, id = "<namespace>", "<key>"
	same, other, empty := "same", "0000", ""
	for name, tc := range map[string]struct {
		enrollment
		want    string // Approved, Denied, or "" for untouched
		message string
		noHost  bool
	}{
		"new host":                           {want: "Approved"},
		"same host again":                    {enrollment: enrollment{existing: &same}, want: "Approved"},
		"host made in advance":               {enrollment: enrollment{existing: &empty}, want: "Approved"},
		"another key":                        {enrollment: enrollment{existing: &other}, want: "Denied", message: "already belongs to a machine with another key"},
		"renewal":                            {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments", existing: &same}, want: "Approved"},
		"renewal by a working certificate":   {enrollment: enrollment{user: "slipway:host:" + ns + ":h1:" + id, group: "slipway:hosts", existing: &same}, want: "Denied", message: "neither the agent"},
		"renewal under a name without a key": {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1", group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent"},
		"renewal with another key":           {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments", existing: &other}, want: "Denied", message: "another key"},
		"renewal of a deleted host":          {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments"}, want: "Denied", message: "enroll the host again", noHost: true},
		"renewal of a predecessor":           {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:0123", group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent"},
		"renewal for a neighbour":            {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h2:" + id, group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent"},
		"token of another namespace": {
			enrollment: enrollment{user: "system:bootstrap:abcdef", group: "system:bootstrappers:slipway:other"}, want: "Denied", message: "auth-extra-groups", noHost: true,
		},
		"token of the host":             {enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + ns + ":h1"}, want: "Approved"},
		"token of a host with a domain": {enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + ns + ":h1:example:com", host: "h1.example.com"}, want: "Approved"},
		"token of another host": {
			enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + ns + ":h2"}, want: "Denied", message: "is bound to other hosts", noHost: true,
		},
		"token of a host whose name begins so": {
			enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + ns + ":h1:example:com"}, want: "Denied", message: "is bound to other hosts", noHost: true,
		},
		"token of the host in another namespace": {
			enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + "other:h1"}, want: "Denied", message: "neither the agent", noHost: true,
		},
		"token that may only ask": {enrollment: enrollment{user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroup}, want: "Denied", message: "neither the agent", noHost: true},
		"plain bootstrap token":   {enrollment: enrollment{user: "system:bootstrap:abcdef", group: "system:bootstrappers"}, want: "Denied", message: "neither the agent", noHost: true},
		"more organizations": {
			enrollment: enrollment{subject: func(n *pkix.Name) { n.Organization = append(n.Organization, "cluster-admins") }}, want: "Denied", message: "exactly slipway:enrollments", noHost: true,
		},
		"another organization": {
			enrollment: enrollment{subject: func(n *pkix.Name) {
				n.Organization = []string{"slipway:hosts-of-others"}
				n.CommonName = "slipway:host:x:h1:0123"
			}}, want: "Denied", message: "exactly slipway:hosts", noHost: true,
		},
		"more in the subject": {
			enrollment: enrollment{subject: func(n *pkix.Name) { n.OrganizationalUnit = []string{"x"} }}, want: "Denied", message: "only", noHost: true,
		},
		"DNS name": {
			enrollment: enrollment{template: func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }}, want: "Denied", message: "alternative names", noHost: true,
		},
		"IP address": {
			enrollment: enrollment{template: func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }}, want: "Denied", message: "alternative names", noHost: true,
		},
		"server certificate": {
			enrollment: enrollment{usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}}, want: "Denied", message: "server auth is not allowed", noHost: true,
		},
		"no client certificate": {
			enrollment: enrollment{usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}}, want: "Denied", message: "client auth is missing", noHost: true,
		},
		"group without a host name": {enrollment: enrollment{commonName: "root"}, want: "Denied", message: "common name", noHost: true},
		"invalid host name":         {enrollment: enrollment{commonName: "slipway:enrollment:" + ns + ":Host_1:" + id}, want: "Denied", message: "is not valid", noHost: true},
		"name of another key":       {enrollment: enrollment{commonName: "slipway:enrollment:" + ns + ":h1:0123"}, want: "Denied", message: "not that of the key", noHost: true},
		"name without a key":        {enrollment: enrollment{commonName: "slipway:enrollment:" + ns + ":h1"}, want: "Denied", message: "common name", noHost: true},
		"agent without a key":       {enrollment: enrollment{commonName: "slipway:host:" + ns + ":h1"}, want: "Denied", message: "common name", noHost: true},
		"host name with more parts": {enrollment: enrollment{commonName: "slipway:enrollment:" + ns + ":h1:x:" + id}, want: "Denied", message: "common name", noHost: true},
		"somebody else's request": {
			enrollment: enrollment{commonName: "jane", subject: func(n *pkix.Name) { n.Organization = []string{"dev"} }}, noHost: true,
		},
		"assigned by another namespace": {
			enrollment: enrollment{user: "slipway:enrollment:other:h1:" + id, group: "slipway:enrollments", existing: &same}, want: "Approved",
		},
		"assigned, before its Host": {
			enrollment: enrollment{user: "slipway:enrollment:other:h1:" + id, group: "slipway:enrollments"}, want: "Denied", message: "does not exist", noHost: true,
		},
		"assigned, to a Host without a key": {
			enrollment: enrollment{user: "slipway:enrollment:other:h1:" + id, group: "slipway:enrollments", existing: &empty}, want: "Denied", message: "another key",
		},
		"assigned, to another's place": {
			enrollment: enrollment{user: "slipway:enrollment:other:h1:" + id, group: "slipway:enrollments", existing: &other}, want: "Denied", message: "another key",
		},
		"assigned, with the certificate of another name": {
			enrollment: enrollment{user: "slipway:enrollment:other:h2:" + id, group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent",
		},
		"assigned, with the certificate of another key": {
			enrollment: enrollment{user: "slipway:enrollment:other:h1:0123", group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent",
		},
		"assigned, with the working certificate": {
			enrollment: enrollment{user: "slipway:host:other:h1:" + id, group: "slipway:hosts", existing: &same}, want: "Denied", message: "neither the agent",
		},
		"handed over, before its Host":    {enrollment: enrollment{handedOver: true}, noHost: true},
		"handed over, after its Host":     {enrollment: enrollment{handedOver: true, existing: &same}, want: "Approved"},
		"handed over, to another's place": {enrollment: enrollment{handedOver: true, existing: &other}, want: "Denied", message: "another key"},
		"another signer":                  {enrollment: enrollment{signer: "kubernetes.io/kubelet-serving"}, noHost: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			key, hostID := newKey(t)
			expand := strings.NewReplacer(ns, w.namespace, id, hostID[:32]).Replace
			if tc.existing != nil {
				id := *tc.existing
				if id == same {
					id = hostID
				}
				w.host("h1", func(h *infrav1.Host) { h.Spec.HostID = id })
			}
			csr := w.file(tc.enrollment, key, expand)
			got := w.decide(csr)
			if got.decision != tc.want || !strings.Contains(got.message, tc.message) {
				t.Errorf("decision = %+v, want %s: %s", got, tc.want, tc.message)
			}
			h := &infrav1.Host{}
			err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: cmp.Or(tc.host, "h1")}, h)
			switch {
			case tc.noHost && err == nil:
				t.Errorf("a Host was made: %+v", h.Spec)
			case !tc.noHost && err != nil:
				t.Errorf("no Host: %v", err)
			case tc.want == "Approved" && h.Spec.HostID != hostID:
				t.Errorf("hostID = %s, want %s", h.Spec.HostID, hostID)
			}
		})
	}
}

// TestWorkingCertificates: the key of the host asks for its enrollment certificate, that asks
// for certificates of other keys, for a day, and those ask for nothing.
func TestWorkingCertificates(t *testing.T) {
	const ns, id = "<namespace>", "<key>"
	// machine is the identity of the host whose certificate asks.
	machine, other, same := strings.Repeat("a", 64), strings.Repeat("b", 64), "same"
	asEnrollment, asAgent := "slipway:enrollment:"+ns+":h1:"+machine[:32], "slipway:host:"+ns+":h1:"+machine[:32]
	agents := func(n *pkix.Name) { n.Organization = []string{"slipway:hosts"} }
	enrollments := func(n *pkix.Name) { n.Organization = []string{"slipway:enrollments"} }
	const day = 24 * 60 * 60
	for name, tc := range map[string]struct {
		enrollment
		want, message string
		noHost        bool
	}{
		"again, by itself":           {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments", existing: &same}, want: "Approved"},
		"after the Host was deleted": {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments"}, want: "Denied", message: "does not exist any more", noHost: true},
		"after it was replaced":      {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments", existing: &other}, want: "Denied", message: "another key"},
		"after the Host was deleted, in the name of a hand-over": {
			enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "slipway:enrollments", handedOver: true}, want: "Denied", message: "does not exist any more", noHost: true,
		},
		"by a neighbor":                {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h2:" + id, group: "slipway:enrollments", existing: &same}, want: "Denied", message: "neither the agent"},
		"by a name without its group":  {enrollment: enrollment{user: "slipway:enrollment:" + ns + ":h1:" + id, group: "people", existing: &same}, want: "Denied", message: "neither the agent"},
		"in the group of agents":       {enrollment: enrollment{subject: agents}, want: "Denied", message: "exactly slipway:enrollments", noHost: true},
		"an agent in its group":        {enrollment: enrollment{commonName: asAgent, subject: enrollments}, want: "Denied", message: "common name must be slipway:enrollment:", noHost: true},
		"of the machine, by its agent": {enrollment: enrollment{commonName: asEnrollment, user: asAgent, group: "slipway:hosts", existing: &machine}, want: "Denied", message: "not that of the key"},

		"working":              {enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: &machine, lifetime: day}, want: "Approved"},
		"working, for an hour": {enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: &machine, lifetime: 3600}, want: "Approved"},
		"working, for longer":  {enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: &machine, lifetime: day + 1}, want: "Denied", message: "must be 86400 at most"},
		"working, for ever":    {enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: &machine}, want: "Denied", message: "must be 86400 at most"},
		"working, of a deleted Host": {
			enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", lifetime: day}, want: "Denied", message: "does not exist any more", noHost: true,
		},
		"working, of a machine that was replaced": {
			enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: &other, lifetime: day}, want: "Denied", message: "another key",
		},
		"working, of a Host made in advance": {
			enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "slipway:enrollments", existing: new(string), lifetime: day}, want: "Denied", message: "another key",
		},
		"working, for the successor": {
			enrollment: enrollment{commonName: "slipway:host:" + ns + ":h1:" + other[:32], user: asEnrollment, group: "slipway:enrollments", existing: &other, lifetime: day}, want: "Denied", message: "may not ask",
		},
		"working, for a neighbour": {
			enrollment: enrollment{commonName: asAgent, user: "slipway:enrollment:" + ns + ":h2:" + machine[:32], group: "slipway:enrollments", existing: &machine, lifetime: day}, want: "Denied", message: "may not ask",
		},
		"working, by a token":              {enrollment: enrollment{commonName: asAgent, existing: &machine, lifetime: day}, want: "Denied", message: "may not ask"},
		"working, by a working key":        {enrollment: enrollment{commonName: asAgent, user: asAgent, group: "slipway:hosts", existing: &machine, lifetime: day}, want: "Denied", message: "may not ask"},
		"working, by a name without a key": {enrollment: enrollment{commonName: asAgent, user: "slipway:host:" + ns + ":h1", group: "slipway:hosts", existing: &machine, lifetime: day}, want: "Denied", message: "may not ask"},
		"working, by a name without group": {enrollment: enrollment{commonName: asAgent, user: asEnrollment, group: "people", existing: &machine, lifetime: day}, want: "Denied", message: "may not ask"},
		"working, of the key of the host, by a token": {
			enrollment: enrollment{commonName: "slipway:host:" + ns + ":h1:" + id, existing: &same, lifetime: day}, want: "Denied", message: "may not ask",
		},
		"working, of the key of the host, by itself": {
			enrollment: enrollment{commonName: "slipway:host:" + ns + ":h1:" + id, user: "slipway:host:" + ns + ":h1:" + id, group: "slipway:hosts", existing: &same, lifetime: day}, want: "Denied", message: "may not ask",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			key, hostID := newKey(t)
			if tc.existing != nil {
				id := *tc.existing
				if id == same {
					id = hostID
				}
				w.host("h1", func(h *infrav1.Host) { h.Spec.HostID = id })
			}
			got := w.decide(w.file(tc.enrollment, key, strings.NewReplacer(ns, w.namespace, id, hostID[:32]).Replace))
			if got.decision != tc.want || !strings.Contains(got.message, tc.message) {
				t.Errorf("decision = %+v, want %s: %s", got, tc.want, tc.message)
			}
			h := &infrav1.Host{}
			if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: "h1"}, h); (err != nil) != tc.noHost {
				t.Errorf("the Host: %v", err)
			}
		})
	}
}

// TestAHostThatIsBeingDeletedKeepsItsAgent: a claimed Host stays until its machine is gone and
// its agent has reset it, for which a day may be too short.
func TestAHostThatIsBeingDeletedKeepsItsAgent(t *testing.T) {
	w := newWorld(t)
	key, id := newKey(t)
	w.host("h1", func(h *infrav1.Host) { h.Spec.HostID, h.Finalizers = id, []string{infrav1.HostFinalizer} })
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "h1"}}
	if err := env.Client.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	asks := infrav1.EnrollmentUser(w.namespace, "h1", id)
	for name, e := range map[string]enrollment{
		"working":    {commonName: infrav1.AgentUser(w.namespace, "h1", id), user: asks, group: infrav1.EnrollmentGroup, lifetime: 3600},
		"enrollment": {user: asks, group: infrav1.EnrollmentGroup},
	} {
		if got := w.decide(w.file(e, key, func(s string) string { return s })); got.decision != "Approved" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func newKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := host.ID(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key, id
}

func keyID(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	id, err := host.ID(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// request is what an agent files.
func (w *world) request(e enrollment, key *ecdsa.PrivateKey, expand func(string) string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	subject := pkix.Name{CommonName: infrav1.EnrollmentUser(w.namespace, cmp.Or(e.host, "h1"), keyID(w.t, key)), Organization: []string{"slipway:enrollments"}}
	if e.commonName != "" {
		subject.CommonName = expand(e.commonName)
	}
	if strings.HasPrefix(e.commonName, "slipway:host:") {
		subject.Organization = []string{"slipway:hosts"}
	}
	if e.subject != nil {
		e.subject(&subject)
	}
	template := &x509.CertificateRequest{Subject: subject}
	if e.template != nil {
		e.template(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		w.t.Fatal(err)
	}
	usages := e.usages
	if usages == nil {
		usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	}
	signer := certificatesv1.KubeAPIServerClientSignerName
	if e.signer != "" {
		signer = e.signer
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer, Usages: usages,
		},
	}
	if e.lifetime != 0 {
		csr.Spec.ExpirationSeconds = &e.lifetime
	}
	if e.handedOver {
		csr.Labels = map[string]string{infrav1.HandOverLabel: ""}
	}
	return csr
}

// file files the request as the user it is from: the API server writes the
// requester into it.
func (w *world) file(e enrollment, key *ecdsa.PrivateKey, expand func(string) string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	w.anyToken()
	csr := w.request(e, key, expand)
	user, group := "system:bootstrap:abcdef", infrav1.BootstrapGroupPrefix+w.namespace
	if e.user != "" {
		user, group = expand(e.user), expand(e.group)
	}
	config := rest.CopyConfig(env.Config)
	// The admin's certificate may impersonate; system:masters lets it create.
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{group, "system:masters"}}
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Create(context.Background(), csr); err != nil {
		w.t.Fatal(err)
	}
	return csr
}

type decision struct{ decision, message string }

func (w *world) decide(csr *certificatesv1.CertificateSigningRequest) decision {
	w.t.Helper()
	r := &hostcontroller.CSRReconciler{Client: env.Client, APIReader: env.Client, Recorder: &events.FakeRecorder{}}
	// Twice: what is decided must stay so.
	for range 2 {
		if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csr)}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(csr), csr); err != nil {
		w.t.Fatal(err)
	}
	switch len(csr.Status.Conditions) {
	case 0:
		return decision{}
	case 1:
		return decision{string(csr.Status.Conditions[0].Type), csr.Status.Conditions[0].Message}
	default:
		w.t.Fatalf("decided more than once: %+v", csr.Status.Conditions)
		return decision{}
	}
}

func TestEnrollmentOfOtherNamespacesIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	key, _ := newKey(t)
	csr := w.file(enrollment{}, key, func(s string) string { return s })
	r := &hostcontroller.CSRReconciler{Client: env.Client, APIReader: env.Client, Recorder: &events.FakeRecorder{}, Namespace: "mine"}
	if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csr)}); err != nil {
		t.Fatal(err)
	}
	if got := w.decide(csr); got.decision != "Approved" {
		t.Errorf("decision = %+v", got)
	}
}
