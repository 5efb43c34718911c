package host_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/host"
)

// tokenWorld is a namespace with a bootstrap token.
type tokenWorld struct {
	*world
	token *corev1.Secret
	id    string
	// manager decides on requests.
	manager *hostcontroller.CSRReconciler
	// files requests with the token.
	files client.Client
}

func newTokenWorld(t *testing.T, uses string) *tokenWorld {
	t.Helper()
	w := &tokenWorld{world: newWorld(t)}
	w.id = strings.TrimPrefix(w.namespace, "test-")
	w.token = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + w.id,
			Annotations: map[string]string{infrav1.TokenUsesAnnotation: uses},
		},
		Type: corev1.SecretTypeBootstrapToken,
	}
	if err := env.Client.Create(t.Context(), w.token); err != nil {
		t.Fatal(err)
	}
	w.restartManager(env.Client)
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:bootstrap:" + w.id, Groups: []string{infrav1.BootstrapGroupPrefix + w.namespace, "system:masters"}}
	var err error
	if w.files, err = client.New(config, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

// restartManager begins with one that remembers nothing.
func (w *tokenWorld) restartManager(c client.Client) {
	w.manager = &hostcontroller.CSRReconciler{Client: c, APIReader: env.Client, Recorder: &events.FakeRecorder{}}
}

func (w *tokenWorld) fileFor(name string, key *ecdsa.PrivateKey) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	csr := w.request(enrollment{host: name}, key, nil)
	if err := w.files.Create(w.t.Context(), csr); err != nil {
		w.t.Fatal(err)
	}
	return csr
}

func (w *tokenWorld) reconcileRequest(csr *certificatesv1.CertificateSigningRequest) error {
	_, err := w.manager.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csr)})
	return err
}

// enroll has a machine ask with the token, and returns the decision: "Approved", or
// "Denied: " and the reason.
func (w *tokenWorld) enroll(name string, key *ecdsa.PrivateKey) string {
	w.t.Helper()
	csr := w.fileFor(name, key)
	if err := w.reconcileRequest(csr); err != nil {
		w.t.Fatal(err)
	}
	return w.decision(csr)
}

func (w *tokenWorld) decision(csr *certificatesv1.CertificateSigningRequest) string {
	w.t.Helper()
	if err := env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		w.t.Fatal(err)
	}
	if len(csr.Status.Conditions) == 0 {
		return ""
	}
	if c := csr.Status.Conditions[0]; c.Type == certificatesv1.CertificateDenied {
		return "Denied: " + c.Reason
	}
	return "Approved"
}

// usedBy are the names of the hosts that the token is recorded to have enrolled; nil when
// it was deleted.
func (w *tokenWorld) usedBy() []string {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKeyFromObject(w.token), secret); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for user := range strings.FieldsSeq(secret.Annotations[infrav1.TokenUsedByAnnotation]) {
		_, name, _ := host.ParseAgentUser(user)
		names = append(names, name)
	}
	return names
}

func (w *tokenWorld) wantUsedBy(want ...string) {
	w.t.Helper()
	if got := w.usedBy(); got == nil || strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("the token has enrolled %q, want %q", got, want)
	}
}

// report is the first one of an agent, with its certificate.
func (w *tokenWorld) report(name string) {
	w.t.Helper()
	h := &infrav1.Host{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, h); err != nil {
		w.t.Fatal(err)
	}
	h.Status.BootID = "boot"
	if err := env.Client.Status().Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tokenWorld) forget(name string) {
	w.t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	if err := env.Client.Patch(w.t.Context(), h, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		w.t.Fatal(err)
	}
	if err := env.Client.Delete(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

// TestTokenEnrollsSoManyMachines: a token enrolls as many machines as it says, and each of
// them once more when it comes again.
func TestTokenEnrollsSoManyMachines(t *testing.T) {
	w := newTokenWorld(t, "2")
	one, _ := newKey(t)
	two, _ := newKey(t)
	three, _ := newKey(t)
	for i, tc := range []struct {
		name string
		key  *ecdsa.PrivateKey
		want string
	}{
		{"a", one, "Approved"},
		{"a", one, "Approved"},
		{"a", two, "Denied: DuplicateIdentity"}, // takes no use
		{"b", two, "Approved"},
		{"c", three, "Denied: TokenUsedUp"},
		{"c", one, "Denied: TokenUsedUp"}, // a name of its own is another host
		{"b", two, "Approved"},
	} {
		if got := w.enroll(tc.name, tc.key); got != tc.want {
			t.Errorf("%d: %s: %s, want %s", i, tc.name, got, tc.want)
		}
	}
	w.wantUsedBy("a", "b")
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "c"}, &infrav1.Host{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Host was made for a machine too many: %v", err)
	}
	// Its Host was deleted: the same machine is no other.
	w.forget("a")
	if got := w.enroll("a", one); got != "Approved" {
		t.Errorf("a, again: %s", got)
	}
	w.wantUsedBy("a", "b")
}

// TestTokenForKnownMachines: a limit of none enrolls nobody, and is for machines that are
// moved or lost their certificate.
func TestTokenForKnownMachines(t *testing.T) {
	w := newTokenWorld(t, "0")
	known, id := newKey(t)
	w.host("known", func(h *infrav1.Host) { h.Spec.HostID = id })
	w.host("prepared", func(h *infrav1.Host) { h.Spec.HostID = "" })
	w.report("known")
	stranger, _ := newKey(t)
	for name, want := range map[string]string{"stranger": "Denied: TokenUsedUp", "prepared": "Denied: TokenUsedUp"} {
		if got := w.enroll(name, stranger); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	csr := w.fileFor("known", known)
	for range 2 { // decides, and would retire
		if err := w.reconcileRequest(csr); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.decision(csr); got != "Approved" {
		t.Errorf("known: %s", got)
	}
	w.wantUsedBy()
}

// TestTokenThatCountsNobody: what is no limit, or is gone, admits nobody.
func TestTokenThatCountsNobody(t *testing.T) {
	for _, uses := range []string{"", "many", "-1", strconv.Itoa(infrav1.MaxTokenUses + 1)} {
		w := newTokenWorld(t, uses)
		key, _ := newKey(t)
		if got := w.enroll("a", key); got != "Denied: TokenMalformed" {
			t.Errorf("uses %q: %s", uses, got)
		}
	}
	// Deleted after the request was filed: it admits nobody who waits.
	w := newTokenWorld(t, "1")
	key, _ := newKey(t)
	csr := w.fileFor("a", key)
	if err := env.Client.Delete(t.Context(), w.token); err != nil {
		t.Fatal(err)
	}
	if err := w.reconcileRequest(csr); err != nil {
		t.Fatal(err)
	}
	if got := w.decision(csr); got != "Denied: TokenGone" {
		t.Errorf("deleted: %s", got)
	}
}

// TestTokenCountSurvivesTheManager ends the manager at each of its writes: the next one
// counts the machine once, and enrolls it.
func TestTokenCountSurvivesTheManager(t *testing.T) {
	died := errors.New("the manager died")
	for name, dies := range map[string]interceptor.Funcs{
		"after the count": {Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return died
		}},
		"after the Host": {SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return died
		}},
		"after its last": {Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return errors.Join(c.Patch(ctx, o, p, opts...), died)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t, "1")
			key, _ := newKey(t)
			csr := w.fileFor("a", key)
			w.restartManager(w.intercept(dies))
			if err := w.reconcileRequest(csr); !errors.Is(err, died) {
				t.Fatalf("got %v", err)
			}
			w.restartManager(env.Client)
			if err := w.reconcileRequest(csr); err != nil {
				t.Fatal(err)
			}
			if got := w.decision(csr); got != "Approved" {
				t.Errorf("after the restart: %s", got)
			}
			w.wantUsedBy("a")
			other, _ := newKey(t)
			if got := w.enroll("b", other); got != "Denied: TokenUsedUp" {
				t.Errorf("another machine: %s", got)
			}
		})
	}
}

// TestTokenLastUseIsForOne has two machines come for the last use, of which two managers
// have read the same: the older one is about to end.
func TestTokenLastUseIsForOne(t *testing.T) {
	w := newTokenWorld(t, "1")
	first, _ := newKey(t)
	second, _ := newKey(t)
	csr, other := w.fileFor("a", first), w.fileFor("b", second)
	overtaken := false
	w.restartManager(w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if !overtaken {
			overtaken = true
			leader := &hostcontroller.CSRReconciler{Client: env.Client, APIReader: env.Client, Recorder: &events.FakeRecorder{}}
			if _, err := leader.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err != nil {
				return err
			}
		}
		return c.Patch(ctx, o, p, opts...)
	}}))
	for range 2 { // the conflict, and what is decided then
		if err := w.reconcileRequest(csr); err != nil {
			t.Fatal(err)
		}
	}
	if got, got2 := w.decision(csr), w.decision(other); !overtaken || got != "Denied: TokenUsedUp" || got2 != "Approved" {
		t.Errorf("%s and %s", got, got2)
	}
	w.wantUsedBy("b")
}

// TestUsedUpTokenGoes: it is deleted once every machine has shown its certificate, which
// they fetch with the token, and not before.
func TestUsedUpTokenGoes(t *testing.T) {
	w := newTokenWorld(t, "2")
	var requests []*certificatesv1.CertificateSigningRequest
	for _, name := range []string{"a", "b"} {
		key, _ := newKey(t)
		csr := w.fileFor(name, key)
		requests = append(requests, csr)
	}
	all := func() {
		t.Helper()
		for _, csr := range requests {
			if err := w.reconcileRequest(csr); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.reconcileRequest(requests[0]); err != nil {
		t.Fatal(err)
	}
	w.report("a")
	all()
	w.wantUsedBy("a", "b") // not used up when a came, and b has not shown itself
	w.restartManager(env.Client)
	all()
	w.wantUsedBy("a", "b")
	w.report("b")
	all()
	if got := w.usedBy(); got != nil {
		t.Errorf("the token that is used up is there still: %s", got)
	}
	all()
}

// A machine that was counted, and lost its name to another one meanwhile, does not keep
// the token.
func TestUsedUpTokenGoesWithoutWhoLost(t *testing.T) {
	w := newTokenWorld(t, "2")
	loser, _ := newKey(t)
	key, _ := newKey(t)
	lost := w.fileFor("b", loser)
	w.restartManager(w.intercept(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return fmt.Errorf("the manager died")
	}}))
	if err := w.reconcileRequest(lost); err == nil {
		t.Fatal("no crash")
	}
	w.host("b", func(h *infrav1.Host) { h.Spec.HostID = "another" })
	w.restartManager(env.Client)
	winner := w.fileFor("a", key)
	for _, csr := range []*certificatesv1.CertificateSigningRequest{lost, winner} {
		if err := w.reconcileRequest(csr); err != nil {
			t.Fatal(err)
		}
	}
	w.wantUsedBy("b", "a")
	w.report("a")
	if err := w.reconcileRequest(winner); err != nil {
		t.Fatal(err)
	}
	if got := w.usedBy(); w.decision(lost) != "Denied: DuplicateIdentity" || got != nil {
		t.Errorf("%s; the token that is used up is there still: %s", w.decision(lost), got)
	}
}

// intercept is a client with faults.
func (w *tokenWorld) intercept(faults interceptor.Funcs) client.Client {
	w.t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return interceptor.NewClient(c, faults)
}
