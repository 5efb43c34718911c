package handover

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// source is a management cluster that serves one Secret, or none.
type source struct {
	mu    sync.Mutex
	order *host.HandOver
	// reads counts who asked for it.
	reads int
}

// GetSecret implements Secrets.
func (s *source) GetSecret(_ context.Context, _, name string) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.order == nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, nil)
	}
	return &corev1.Secret{Data: map[string][]byte{
		infrav1.HandOverKubeconfigKey: s.order.Kubeconfig, infrav1.HandOverSignatureKey: s.order.Signature,
		infrav1.HandOverExpirationKey: []byte(s.order.Expires.Format(time.RFC3339)),
	}}, nil
}

func (s *source) set(order *host.HandOver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
}

// scene is an agent, its management cluster, and another one that answers as told.
type scene struct {
	*source
	t       *testing.T
	options Options
	keeper  *Keeper
	key     ed25519.PrivateKey
	public  ed25519.PublicKey
	target  *httptest.Server
	// code is the answer of the other management cluster.
	code int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, source: &source{}, code: http.StatusNotFound}
	var err error
	if s.public, s.key, err = ed25519.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
	s.target = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reasons := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusUnauthorized: metav1.StatusReasonUnauthorized}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reasons[s.code], Code: int32(s.code),
		})
	}))
	t.Cleanup(s.target.Close)
	s.options = Options{
		StateDir: t.TempDir(), Namespace: "ns", HostName: "h", HostID: "id", Secrets: s.source,
		Progress: func() (int64, bool) { return 0, false }, Answered: func() {}, Patience: DefaultPatience, Log: slog.New(slog.DiscardHandler),
	}
	s.restart()
	return s
}

// restart ends the process of the agent and starts another.
func (s *scene) restart() {
	s.t.Helper()
	var err error
	if s.keeper, err = New(s.options); err != nil {
		s.t.Fatal(err)
	}
}

// signed is a hand-over to the other management cluster.
func (s *scene) signed(key ed25519.PrivateKey) *host.HandOver {
	s.t.Helper()
	config := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.target.Certificate().Raw})
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.target.URL, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	data, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	return &host.HandOver{Kubeconfig: data, Signature: host.SignHandOver(key, "ns", data)}
}

// announce does what the next heartbeat brings.
func (s *scene) announce(revision string) {
	annotations := map[string]string{infrav1.HandOverSignerAnnotation: host.EncodeSigner(s.public)}
	if revision != "" {
		annotations[infrav1.HandOverAnnotation] = revision
	}
	s.keeper.Announced(annotations)
	s.keeper.prepare(s.t.Context())
}

func (s *scene) prepared() bool {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	return s.keeper.state.Prepared != nil
}

// ends is when the hand-over that is prepared ends.
func (s *scene) ends() time.Time {
	s.t.Helper()
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	if s.keeper.state.Prepared == nil {
		s.t.Fatal("nothing is prepared")
	}
	return s.keeper.state.Prepared.Expires
}

// reports checks the answer of the agent.
func (s *scene) reports(want string) {
	s.t.Helper()
	if got := s.keeper.Report(); !strings.Contains(got, want) || (want == "") != (got == "") {
		s.t.Errorf("the agent reports %q, want %q", got, want)
	}
}

func TestPreparesWhatIsSigned(t *testing.T) {
	s := newScene(t)
	s.announce("")
	s.reports("")
	order := s.signed(s.key)
	s.set(order)
	s.announce(order.Revision())
	s.reports(order.Revision() + " Ready")

	// It is kept, with who signed it, and forgotten only when it is called off.
	s.restart()
	s.keeper.prepare(t.Context())
	if !s.prepared() {
		t.Fatal("a restart lost the hand-over")
	}
	s.set(nil)
	s.announce("")
	s.reports("")
	if s.prepared() {
		t.Error("a hand-over that was called off is kept")
	}
}

func TestRefusesWhatAStrangerSigned(t *testing.T) {
	s := newScene(t)
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	order := s.signed(stranger)
	s.set(order)
	s.announce(order.Revision())
	s.reports("not signed by the management cluster that this agent trusts")
	if s.prepared() {
		t.Error("it was taken all the same")
	}
	// A cluster that let go of the host has no say in who signs.
	s.announce("")
	s.keeper.Unserved(nil)
	s.keeper.prepare(t.Context())
	if s.prepared() {
		t.Error("it was taken once the Host was gone")
	}
}

func TestTellsWhyItCannotGo(t *testing.T) {
	s := newScene(t)
	s.code = http.StatusUnauthorized
	order := s.signed(s.key)
	s.set(order)
	s.announce(order.Revision())
	s.reports("does not accept the bootstrap token")
	s.target.Close()
	s.keeper.prepare(t.Context())
	s.reports("cannot reach " + s.target.URL)
}

// Behind a load balancer a management cluster that is gone for good still answers.
func TestFollowsWhenTheSourceAnswersWithErrorsAlone(t *testing.T) {
	s := newScene(t)
	order := s.signed(s.key)
	s.set(order)
	s.announce(order.Revision())
	hosts := schema.GroupResource{Resource: "hosts"}
	for _, c := range []struct {
		name string
		err  error
		// after is how long it takes to give the source up, in times of Patience; 0 for
		// never.
		after time.Duration
	}{
		{"no connection", errors.New("connection refused"), 1},
		{"no backend", apierrors.NewServiceUnavailable("no backend"), answeredPatience},
		{"a page of a proxy", apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", hosts, "h", "<html>", 0, true), answeredPatience},
		{"a proxy that knows nobody", apierrors.NewUnauthorized("no"), answeredPatience},
		{"too much to do", apierrors.NewTooManyRequests("later", 1), 0},
		{"a watch that is too old", apierrors.NewResourceExpired("too old"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.keeper.Served()
			s.keeper.Unserved(c.err)
			gives := func(after time.Duration) bool {
				for _, since := range []*time.Time{&s.keeper.away, &s.keeper.silent} {
					if !since.IsZero() {
						*since = time.Now().Add(-after)
					}
				}
				leaves, _ := s.keeper.abandoned()
				return leaves != nil
			}
			patience := s.options.Patience
			if c.after == 0 {
				if gives(100 * patience) {
					t.Error("it leaves a management cluster that is alive")
				}
				return
			}
			if gives(c.after*patience - time.Minute) {
				t.Error("it leaves too soon")
			}
			if !gives(c.after * patience) {
				t.Error("it does not leave")
			}
			s.keeper.Served()
			if gives(100 * patience) {
				t.Error("it leaves although its host is served again")
			}
		})
	}
}

// One connection that is refused takes nothing from the time that a server with answers
// gets, and one answer gives it to a server that is gone.
func TestSilenceCountsFromItsBegin(t *testing.T) {
	s := newScene(t)
	order := s.signed(s.key)
	s.set(order)
	s.announce(order.Revision())
	leaves := func() bool {
		due, _ := s.keeper.abandoned()
		return due != nil
	}
	s.keeper.Unserved(apierrors.NewServiceUnavailable("etcd is away"))
	s.keeper.away = time.Now().Add(-2 * s.options.Patience)
	s.keeper.Unserved(errors.New("connection refused"))
	if leaves() {
		t.Error("it leaves at the first connection that is refused")
	}
	s.keeper.silent = time.Now().Add(-s.options.Patience)
	if !leaves() {
		t.Error("it does not leave a server that is silent")
	}
	s.keeper.Unserved(apierrors.NewServiceUnavailable("no backend"))
	if leaves() {
		t.Error("it leaves a server that answers again")
	}
	s.keeper.away = time.Now().Add(-answeredPatience * s.options.Patience)
	if !leaves() {
		t.Error("it does not leave a server that has answered with errors for so long")
	}
}

// What was within reach once need not be when the move begins.
func TestLooksAgainWhetherItCanGo(t *testing.T) {
	s := newScene(t)
	order := s.signed(s.key)
	s.set(order)
	s.announce(order.Revision())
	s.reports(order.Revision() + " Ready")

	s.code = http.StatusUnauthorized
	s.keeper.prepare(t.Context())
	s.reports(order.Revision() + " Ready") // it was asked a moment ago
	s.keeper.probed = s.keeper.probed.Add(-probeEvery)
	s.keeper.prepare(t.Context())
	s.reports("does not accept the bootstrap token")
	if !s.prepared() {
		t.Error("the hand-over is forgotten")
	}
	s.code = http.StatusNotFound
	s.keeper.prepare(t.Context())
	s.reports(order.Revision() + " Ready")
}

// An agent that comes back when its Host has gone finds the hand-over by itself.
func TestFindsTheHandOverWhenItsHostIsGone(t *testing.T) {
	s := newScene(t)
	s.announce("")
	s.restart()
	s.set(s.signed(s.key))
	s.keeper.Unserved(apierrors.NewForbidden(schema.GroupResource{Resource: "hosts"}, "h", nil))
	s.keeper.prepare(t.Context())
	if !s.prepared() {
		t.Fatal("it was not found")
	}
	if order, _ := s.keeper.abandoned(); order == nil {
		t.Error("the agent does not go")
	}
	s.keeper.Served()
	if order, _ := s.keeper.abandoned(); order != nil {
		t.Error("the agent goes although its host is served again")
	}
}
