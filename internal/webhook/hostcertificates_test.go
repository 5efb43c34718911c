package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// TestTheManagerApprovesOnlyHosts: whoever takes over slipway-manager signs no request of
// a person or of another component with its rights.
func TestTheManagerApprovesOnlyHosts(t *testing.T) {
	testenv.Skip(t)
	theManager := clientset(t, manager)
	client, server := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}
	poll.Until(t, "the policy of approvals holds", func() error {
		return refusedBecause(decideOn(t, theManager, fileRequest(t, "ann", "people", client), certificatesv1.CertificateApproved), `"ann" is neither`)
	})
	for name, tc := range map[string]struct {
		user, group string
		usages      []certificatesv1.KeyUsage
		decision    certificatesv1.RequestConditionType
		by          kubernetes.Interface
		refusal     string
	}{
		"token of hosts":                   {user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroup, usages: client},
		"token of a namespace":             {user: "system:bootstrap:abcdef", group: infrav1.BootstrapGroupPrefix + "prod", usages: client},
		"agent, working":                   {user: "slipway:host:prod:h1:0", group: infrav1.AgentGroup, usages: client, refusal: "is neither"},
		"enrollment":                       {user: "slipway:enrollment:prod:h1:0", group: infrav1.EnrollmentGroup, usages: client},
		"enrollment, for a server":         {user: "slipway:enrollment:prod:h1:0", group: infrav1.EnrollmentGroup, usages: server, refusal: "client certificates only"},
		"token of kubeadm":                 {user: "system:bootstrap:abcdef", group: "system:bootstrappers:kubeadm:default-node-token", usages: client, refusal: "is neither"},
		"a group that begins like ours":    {user: "ann", group: "system:bootstrappers:slipway-not", usages: client, refusal: "is neither"},
		"agents of others":                 {user: "ann", group: "slipway:hosts-of-others", usages: client, refusal: "is neither"},
		"a person, denied":                 {user: "ann", group: "people", usages: client, decision: certificatesv1.CertificateDenied},
		"a person, by an administrator":    {user: "ann", group: "people", usages: server, by: clientset(t, "")},
		"the manager of another namespace": {user: "ann", group: "people", usages: client, by: clientset(t, otherManager, "system:masters"), refusal: "is neither"},
	} {
		t.Run(name, func(t *testing.T) {
			by, decision := tc.by, tc.decision
			if by == nil {
				by = theManager
			}
			if decision == "" {
				decision = certificatesv1.CertificateApproved
			}
			err := decideOn(t, by, fileRequest(t, tc.user, tc.group, tc.usages), decision)
			if tc.refusal != "" {
				err = refusedBecause(err, tc.refusal)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// otherManager is the user of a manager that clusterctl installed elsewhere.
const otherManager = "system:serviceaccount:infra:slipway-manager"

func refusedBecause(err error, why string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("want a refusal because %q, got %w", why, err)
	}
	return nil
}

// clientset acts as a user; as the administrator when it is empty.
func clientset(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config := env.Config
	if user != "" {
		config = env.As(user, groups...)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fileRequest files a request as a user, who may do so by group system:masters.
func fileRequest(t *testing.T, user, group string, usages []certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "somebody"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := clientset(t, user, group, "system:masters").CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: usages,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func decideOn(t *testing.T, c kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest, decision certificatesv1.RequestConditionType) error {
	t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: decision, Status: corev1.ConditionTrue, Reason: "Test", Message: "Test",
	})
	_, err := c.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
	return err
}

// TestRequestsOfAgentsAreNobodyElses: who enrolls, or stole a token or certificate for it, files requests that end, and that nobody
// else takes for theirs.
func TestRequestsOfAgentsAreNobodyElses(t *testing.T) {
	testenv.Skip(t)
	der := func() []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "somebody"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}()
	long, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: strings.Repeat("x", 32<<10)}}, long)
	if err != nil {
		t.Fatal(err)
	}
	file := func(user, group string, change func(*certificatesv1.CertificateSigningRequest)) error {
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "slipway-agent-", Labels: map[string]string{infrav1.HostLabel: "h1", infrav1.HandOverLabel: ""}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		}
		change(csr)
		_, err := clientset(t, user, group, "system:masters").CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	cases := map[string]struct {
		change  func(*certificatesv1.CertificateSigningRequest)
		refused string
	}{
		"as an agent": {func(*certificatesv1.CertificateSigningRequest) {}, ""},
		"of a node": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, ""},
		"finalizer": {func(r *certificatesv1.CertificateSigningRequest) { r.Finalizers = []string{"example.com/stay"} }, "metadata: "},
		"owner": {func(r *certificatesv1.CertificateSigningRequest) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "kube-system", UID: "5f0f8e0c-0000-4000-8000-000000000000"}}
		}, "metadata: "},
		"annotation": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Annotations = map[string]string{"example.com/a": "b"}
		}, "metadata: "},
		"label": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Labels["app.kubernetes.io/managed-by"] = "somebody"
		}, "metadata.labels: "},
		"another signer": {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.com/theirs" }, "spec.signerName: "},
		"large": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: large})
		}, "spec.request: "},
	}
	poll.Until(t, "the policy of requests holds", func() error {
		return refusedBecause(file("system:bootstrap:abcdef", infrav1.BootstrapGroup, cases["finalizer"].change), "metadata: ")
	})
	for group, user := range map[string]string{
		infrav1.BootstrapGroup: "system:bootstrap:abcdef", infrav1.BootstrapGroupPrefix + "prod": "system:bootstrap:abcdef",
		infrav1.EnrollmentGroup: "slipway:enrollment:prod:h1:0", infrav1.AgentGroup: "slipway:host:prod:h1:0", "people": "ann",
	} {
		for name, tc := range cases {
			t.Run(group+"/"+name, func(t *testing.T) {
				err := file(user, group, tc.change)
				if tc.refused != "" && group != "people" {
					err = refusedBecause(err, tc.refused)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}
