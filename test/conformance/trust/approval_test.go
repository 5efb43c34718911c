package trust

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// guarded is a namespace whose hosts somebody approves. A token for all of its hosts was
// stolen.
const (
	guarded       = "tenant-c"
	smuggledHost  = "0"
	stolenTokenID = "fedcba"
	// singleTokenID is of a token for one machine.
	singleTokenID = "abc123"
)

// guard makes the namespace.
func (w *world) guard() {
	w.t.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: guarded}})
	w.create(&infrav1.HostApprovalPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: guarded, Name: infrav1.HostApprovalPolicyName},
		Spec:       infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalManual},
	})
	for id, annotations := range map[string]map[string]string{stolenTokenID: nil, singleTokenID: {infrav1.TokenUsesAnnotation: "1"}} {
		w.token(id, infrav1.BootstrapGroupPrefix+guarded, annotations)
	}
}

// request is for a certificate of a client of the API server.
func (w *world) request(name string, subject pkix.Name, key crypto.Signer) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// takenOver has whoever took over the manager approve a request that no host filed.
func (w *world) takenOver(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr := w.request("somebody", pkix.Name{CommonName: "system:kube-controller-manager"}, key)
	w.create(csr)
	config, err := w.As(t.Context(), "slipway-system", "slipway-manager")
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Stolen", Message: "Stolen",
	}}
	switch err := w.client(config).SubResource("approval").Update(t.Context(), csr); {
	case err == nil:
		t.Error("the manager's rights approve a certificate of another component")
	case !refused(err) || !strings.Contains(err.Error(), "is neither"):
		t.Errorf("the refusal proves nothing: %v", err)
	}
	database := &corev1.Secret{ObjectMeta: meta(namespace, "database")}
	stolen := &corev1.Secret{ObjectMeta: meta(metav1.NamespaceSystem, "bootstrap-token-"+stolenTokenID)}
	admin := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	itself := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "slipway-system", Name: "slipway-manager"}}
	for _, a := range []attempt{
		{"change a Secret", patch(database, map[string]any{"data": map[string]any{"password": ""}})},
		{"delete a Secret", remove(database)},
		{"limit a token that has no limit", patch(stolen, map[string]any{"metadata": map[string]any{"annotations": map[string]any{infrav1.TokenUsesAnnotation: "9"}}})},
		{"delete a token that has no limit", remove(stolen)},
		{"list Secrets", list(&corev1.SecretList{})},
		{"make a Secret", create(&corev1.Secret{ObjectMeta: meta(namespace, "own"), Type: corev1.SecretTypeServiceAccountToken})},
		{"grant itself more in a namespace", create(&rbacv1.RoleBinding{ObjectMeta: meta(namespace, "more"), RoleRef: admin, Subjects: itself})},
		{"grant itself more everywhere", create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "more"), RoleRef: admin, Subjects: itself})},
	} {
		w.judge(t, persona{name: "the manager"}, w.client(config), a)
	}
}

// usedUp has the thief of a token that enrolls one machine come after that one.
func (w *world) usedUp(t *testing.T) {
	agent, _ := w.enroll(singleTokenID, "first")
	if agent == nil {
		t.Fatal("the first machine is refused")
	}
	if thief, denied := w.enroll(singleTokenID, "second"); thief != nil || denied != "TokenUsedUp" {
		t.Errorf("a second machine is enrolled, or refused because of %q", denied)
	}
	w.pretend(agent, "first")
	thief := w.withToken(singleTokenID)
	w.eventually("the token ends with the report of its machine", func(ctx context.Context) error {
		if err := w.client(thief).List(ctx, &certificatesv1.CertificateSigningRequestList{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the token still asks: %w", err)
		}
		return nil
	})
}

// enroll has a host ask with a token, as an agent does, and returns what its certificates
// allow, or why there are none.
func (w *world) enroll(token, name string) (_ client.Client, denied string) {
	w.t.Helper()
	identity, id := w.newKey()
	enrollment, denied := w.ask(w.withToken(token), w.request("host-"+name, enrollmentOf(name, id), identity), identity)
	if denied != "" {
		return nil, denied
	}
	key, _ := w.newKey()
	csr := w.request("host-"+name+"-working", agentOf(name, id), key)
	csr.Spec.ExpirationSeconds = &aDay
	agent, denied := w.ask(enrollment, csr, key)
	if denied != "" {
		return nil, denied
	}
	return w.client(agent), ""
}

func (w *world) newKey() (_ *ecdsa.PrivateKey, hostID string) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := host.ID(key.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	return key, id
}

func (w *world) withToken(id string) *rest.Config {
	config := rest.AnonymousClientConfig(w.Config)
	config.BearerToken = id + "." + tokenSecret
	return config
}

// ask files a request, and returns who it makes of its key, or why there is no certificate.
func (w *world) ask(by *rest.Config, csr *certificatesv1.CertificateSigningRequest, key *ecdsa.PrivateKey) (_ *rest.Config, denied string) {
	w.t.Helper()
	w.eventually("the request is filed", func(ctx context.Context) error { return w.client(by).Create(ctx, csr.DeepCopy()) })
	w.eventually("the request is decided, and signed", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return err
		}
		if i := slices.IndexFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateDenied
		}); i >= 0 {
			denied = csr.Status.Conditions[i].Reason
			return nil
		}
		if len(csr.Status.Certificate) == 0 {
			return fmt.Errorf("no certificate: %+v", csr.Status.Conditions)
		}
		return nil
	})
	if denied != "" {
		return nil, denied
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.Config)
	config.CertData, config.KeyData = csr.Status.Certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return config, ""
}

// pretend has a host report that it is clean and there for long.
func (w *world) pretend(agent client.Client, name string) {
	w.t.Helper()
	w.report(agent, client.ObjectKey{Namespace: guarded, Name: name})
}

// report has a host that is clean report.
func (w *world) report(agent client.Client, key client.ObjectKey) {
	w.t.Helper()
	w.reportAs(agent, key, func(s *infrav1.HostStatus) { s.CleanProof = &infrav1.CleanProof{Time: metav1.Now().Rfc3339Copy()} })
}

// reportAs has a host report, with what it says besides.
func (w *world) reportAs(agent client.Client, key client.ObjectKey, says func(*infrav1.HostStatus)) {
	w.t.Helper()
	w.eventually("the host reports", func(ctx context.Context) error {
		h, lease := &infrav1.Host{}, &coordinationv1.Lease{}
		if err := errors.Join(agent.Get(ctx, key, h), agent.Get(ctx, key, lease)); err != nil {
			return err
		}
		h.Status.BootID, h.Status.Inventory.KubernetesVersions = "boot", []string{testenv.Version}
		h.Status.Inventory.Architecture, h.Status.Capacity = "amd64", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		says(&h.Status)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(key.Name), &metav1.MicroTime{Time: time.Now()}
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](3600)
		return errors.Join(agent.Status().Update(ctx, h), agent.Update(ctx, lease))
	})
}

// smuggled has the thief of a token bring in a host, which is to get the bootstrap data
// of a control plane.
func (w *world) smuggled(t *testing.T) {
	agent, denied := w.enroll(stolenTokenID, smuggledHost)
	if denied != "" {
		t.Fatal(denied)
	}
	w.pretend(agent, smuggledHost)
	smuggled := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: guarded, Name: smuggledHost}}
	approved := map[string]any{"spec": map[string]any{"approval": infrav1.HostApprovalApproved}}
	policy := &infrav1.HostApprovalPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: guarded, Name: infrav1.HostApprovalPolicyName}}
	for _, a := range []attempt{
		{"approve itself", patch(smuggled, approved)},
		{"approve itself by its status", func(ctx context.Context, c client.Client) error {
			// Accepted, and without effect: a subresource writes nothing else.
			if err := patch(smuggled, approved, "status")(ctx, c); err != nil {
				return err
			}
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(smuggled), smuggled); err != nil || smuggled.Spec.Approval == infrav1.HostApprovalApproved {
				return err
			}
			return errRefused
		}},
		{"change the policy", patch(policy, map[string]any{"spec": map[string]any{"mode": "Auto"}})},
		{"delete the policy", remove(policy)},
	} {
		if err := a.try(t.Context(), agent); err == nil {
			t.Errorf("the agent could %s", a.name)
		} else if !refused(err) && !errors.Is(err, errRefused) {
			t.Errorf("%s: the refusal proves nothing: %v", a.name, err)
		}
	}

	testenv.NewCluster(t, w.Client, guarded)
	machine := testenv.NewMachine(t, w.Client, guarded, "control-plane", func(m *clusterv1.Machine, hm *infrav1.HostMachine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
		hm.Labels = m.Labels
	})
	data := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: guarded, Name: "bootstrap-control-plane", Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
		Type:       clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#cloud-config", "format": "cloud-config"},
	}
	w.create(data)
	w.eventually("the machine tells what it waits for", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		claimed := apimeta.FindStatusCondition(machine.Status.Conditions, infrav1.HostClaimedCondition)
		if claimed == nil || !strings.Contains(claimed.Message, "1 not approved (0; approve with: slipway host approve 0 -n "+guarded+")") {
			return fmt.Errorf("%+v", machine.Status.Conditions)
		}
		return nil
	})
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(smuggled), smuggled); err != nil || smuggled.Spec.Claim != nil || smuggled.Spec.Approval != infrav1.HostApprovalPending {
		t.Errorf("the smuggled host is claimed: %v, %+v", err, smuggled.Spec)
	}
	read := func(ctx context.Context) error {
		return agent.Get(ctx, client.ObjectKeyFromObject(data), &corev1.Secret{})
	}
	if err := read(t.Context()); !refused(err) {
		t.Errorf("the smuggled host reads the bootstrap data of a control plane: %v", err)
	}
	secret := w.requestHandOver()
	readHandOver := func(ctx context.Context) error {
		return agent.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
	}
	if err := readHandOver(t.Context()); !refused(err) {
		t.Errorf("the smuggled host reads the token of another management cluster: %v", err)
	}
	// It was the approval that held it back.
	if err := patch(smuggled, approved)(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	w.eventually("the host gets the data once somebody approved it", read)
	w.eventually("the host is handed over once somebody approved it", readHandOver)
}

// handOverByKubeconfig is one that the manager signs.
func handOverByKubeconfig(in string) *corev1.Secret {
	secret := handOver(in)
	secret.StringData[infrav1.HandOverKubeconfigKey] = `{"current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "https://target.example:6443", "certificate-authority-data": "Q0E="}}],
		"users": [{"name": "c", "user": {"token": "abcdef.0123456789abcdef"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`
	return secret
}

// requestHandOver hands the guarded hosts over, and waits until those that may read it can.
func (w *world) requestHandOver() *corev1.Secret {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: meta(guarded, infrav1.HandOverSignerSecretName), Data: map[string][]byte{infrav1.HandOverSignerSeedKey: make([]byte, 32)},
	})
	secret := handOverByKubeconfig(guarded)
	w.create(secret)
	w.eventually("the hand-over is signed and granted", func(ctx context.Context) error {
		role := &rbacv1.Role{}
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(secret), role)
		if err == nil && len(role.Rules) == 0 {
			err = errors.New("nobody may read it yet")
		}
		return errors.Join(err, w.Client.Get(ctx, client.ObjectKeyFromObject(secret), &rbacv1.RoleBinding{}))
	})
	return secret
}

// errRefused says that an attempt was without effect.
var errRefused = errors.New("without effect")
