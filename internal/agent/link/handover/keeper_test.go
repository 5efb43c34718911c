package handover

import (
	"bytes"
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
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// source is a management cluster that serves one Secret, or none.
type source struct {
	mu       sync.Mutex
	handOver *host.HandOver
	// reads counts who asked for it.
	reads int
}

// GetSecret implements Secrets.
func (s *source) GetSecret(_ context.Context, _, name string) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.handOver == nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, nil)
	}
	return &corev1.Secret{Data: map[string][]byte{
		infrav1.HandOverKubeconfigKey: s.handOver.Kubeconfig, infrav1.HandOverSignatureKey: s.handOver.Signature,
		infrav1.HandOverExpirationKey: []byte(s.handOver.Expires.Format(time.RFC3339Nano)),
	}}, nil
}

func (s *source) set(handOver *host.HandOver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOver = handOver
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

// signed is a hand-over to the other management cluster, for a day.
func (s *scene) signed(key ed25519.PrivateKey) *host.HandOver {
	return s.signedUntil(key, time.Now().Add(24*time.Hour))
}

// signedUntil is one that ends at another time.
func (s *scene) signedUntil(key ed25519.PrivateKey, expires time.Time) *host.HandOver {
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
	handOver := &host.HandOver{Kubeconfig: data, Expires: expires.UTC()}
	handOver.Signature = handOver.Sign(key, "ns")
	return handOver
}

// TestServedWritesNothing: the heartbeat needs the lock under which Served works, and a disk may
// take long. What it brings counts at once, and is written by Run.
func TestServedWritesNothing(t *testing.T) {
	s := newScene(t)
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.keeper.Unserved(nil)
	s.keeper.prepare(t.Context())
	k, saved := s.keeper, 0
	save := k.save
	k.save = func(s state) error {
		if saved++; !k.mu.TryLock() {
			t.Error("the state is written with the lock held")
			return nil
		}
		k.mu.Unlock()
		return save(s)
	}
	k.Served()
	if saved > 0 {
		t.Error("Served writes")
	}
	k.Unserved(errors.New("connection refused"))
	k.silent = time.Now().Add(-time.Hour)
	if k.letGo() {
		t.Error("a host that was shown again counts as let go")
	}
	k.prepare(t.Context())
	if known, err := load(s.options.StateDir); err != nil || known.LetGo || saved == 0 {
		t.Errorf("the disk has %+v: %v", known, err)
	}
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
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.reports(handOver.Revision() + " Ready")

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
	handOver := s.signed(stranger)
	s.set(handOver)
	s.announce(handOver.Revision())
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
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.reports("does not accept the bootstrap token")
	s.target.Close()
	s.keeper.prepare(t.Context())
	s.reports("cannot reach " + s.target.URL)
}

// Behind a load balancer a management cluster that is gone for good still answers.
func TestFollowsWhenTheSourceAnswersWithErrorsAlone(t *testing.T) {
	s := newScene(t)
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
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
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
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
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.reports(handOver.Revision() + " Ready")

	s.code = http.StatusUnauthorized
	s.keeper.prepare(t.Context())
	s.reports(handOver.Revision() + " Ready") // it was asked a moment ago
	s.keeper.probed = s.keeper.probed.Add(-probeEvery)
	s.keeper.prepare(t.Context())
	s.reports("does not accept the bootstrap token")
	if !s.prepared() {
		t.Error("the hand-over is forgotten")
	}
	s.code = http.StatusNotFound
	s.keeper.prepare(t.Context())
	s.reports(handOver.Revision() + " Ready")
}

// denial is the answer of a management cluster in which the agent has no right to its Host.
var denial = apierrors.NewForbidden(schema.GroupResource{Resource: "hosts"}, "h", nil)

// An agent that comes back when its Host has gone finds the hand-over by itself.
func TestFindsTheHandOverWhenItsHostIsGone(t *testing.T) {
	s := newScene(t)
	s.announce("")
	s.restart()
	s.set(s.signed(s.key))
	s.keeper.Unserved(denial)
	s.keeper.denied = time.Now().Add(-s.options.Patience / 2)
	s.keeper.prepare(t.Context())
	if !s.prepared() {
		t.Fatal("it was not found")
	}
	if handOver, _ := s.keeper.abandoned(); handOver == nil {
		t.Error("the agent does not go")
	}
	s.keeper.Served()
	if handOver, _ := s.keeper.abandoned(); handOver != nil {
		t.Error("the agent goes although its host is served again")
	}
}

// A management cluster that does not answer may live, and the Host in the other one may be
// the copy of a backup: an operator has to say that it is all there is, of this very Host.
func TestStaysWithAManagementClusterThatMayLive(t *testing.T) {
	s := newScene(t)
	s.options.Progress = func() (int64, bool) { return 3, false }
	s.restart()
	there := func(restored string, change func(*infrav1.Host)) *infrav1.Host {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: "h", UID: "copy"}, Spec: infrav1.HostSpec{HostID: "id", ClaimGeneration: 3}}
		if restored != "" {
			h.Annotations = map[string]string{infrav1.RestoredAnnotation: restored}
		}
		if change != nil {
			change(h)
		}
		return h
	}
	silent := errors.New("connection refused")
	for name, c := range map[string]struct {
		unserved error
		there    *infrav1.Host
		goes     bool
		fails    string
	}{
		"let go":                      {nil, there("", nil), true, ""},
		"the first denial":            {denial, there("", nil), false, ""},
		"no answer":                   {silent, there("", nil), false, ""},
		"errors":                      {apierrors.NewServiceUnavailable("no backend"), there("", nil), false, ""},
		"an operator's word":          {silent, there("copy", nil), true, ""},
		"a word that was copied":      {silent, there("original", nil), false, ""},
		"an empty word":               {silent, there("", func(h *infrav1.Host) { h.UID = ""; h.Annotations = map[string]string{infrav1.RestoredAnnotation: ""} }), false, ""},
		"a word for another machine":  {silent, there("copy", func(h *infrav1.Host) { h.Spec.HostID = "other" }), false, "of another machine"},
		"a word for what was once":    {silent, there("copy", func(h *infrav1.Host) { h.Spec.ClaimGeneration = 2 }), false, "of an earlier time"},
		"let go for what was once":    {nil, there("", func(h *infrav1.Host) { h.Spec.ClaimGeneration = 2 }), false, "of an earlier time"},
		"let go for a later claim":    {nil, there("", func(h *infrav1.Host) { h.Spec.ClaimGeneration = 4 }), true, ""},
		"let go, and another machine": {nil, there("", func(h *infrav1.Host) { h.Spec.HostID = "other" }), false, "of another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s.keeper.Served()
			s.keeper.Unserved(c.unserved)
			goes, err := s.keeper.mayGo(c.there)
			if goes != c.goes || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("it goes: %t, %v", goes, err)
			}
		})
	}
	s.keeper.options.Progress = func() (int64, bool) { return 3, true }
	s.keeper.Unserved(nil)
	if goes, _ := s.keeper.mayGo(there("copy", nil)); goes {
		t.Error("it goes in the middle of an operation")
	}
}

// An API server that starts denies everybody everything for a moment, and says that it is
// ready: with the copy of a backup beside it, that moment must not count.
func TestDenialLetsGoOnlyWhenItLasts(t *testing.T) {
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "hosts"}, "", "default backend - 404", 0, true)
	for name, err := range map[string]error{"no right": denial, "no such page": unserved} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			handOver := s.signed(s.key)
			s.set(handOver)
			s.announce(handOver.Revision())
			leaves := func() bool {
				due, _ := s.keeper.abandoned()
				return due != nil && s.keeper.letGo()
			}
			lasts := func(d time.Duration) { s.keeper.denied = s.keeper.denied.Add(-d) }
			long := s.options.Patience / 2

			s.keeper.Unserved(errors.New("connection refused"))
			s.keeper.silent = time.Now().Add(-s.options.Patience)
			s.keeper.Unserved(err)
			if due, _ := s.keeper.abandoned(); due != nil || s.keeper.letGo() {
				t.Error("it leaves at the first answer after the silence")
			}
			lasts(long - 10*time.Second)
			s.keeper.Unserved(err)
			if leaves() {
				t.Error("it leaves too soon")
			}
			s.keeper.Unserved(apierrors.NewServiceUnavailable("starting"))
			s.keeper.Unserved(err)
			lasts(long - 10*time.Second)
			if leaves() {
				t.Error("it counts what was before another answer")
			}
			lasts(10 * time.Second)
			s.keeper.Unserved(err)
			if !leaves() {
				t.Error("it does not leave although it has no right any more")
			}
			s.keeper.Served()
			s.keeper.Unserved(err)
			if leaves() {
				t.Error("it leaves a management cluster that has served it since")
			}
		})
	}
}

// elsewhere is the agent's identity in another management cluster, which shows a Host.
type elsewhere struct {
	config    *rest.Config
	committed bool
	// asked counts how often the Host was read.
	asked atomic.Int32
}

func (e *elsewhere) Config() *rest.Config { return e.config }

func (e *elsewhere) Commit() error {
	e.committed = true
	return nil
}

func newElsewhere(t *testing.T, there *infrav1.Host) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(there)
	}))
	t.Cleanup(server.Close)
	e.config = &rest.Config{Host: server.URL}
	return e
}

// TestLooksAgainBeforeItGoes: while the other management cluster answers, the one of the
// host serves it again, or an operation begins.
func TestLooksAgainBeforeItGoes(t *testing.T) {
	restored := &infrav1.Host{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Host"},
		ObjectMeta: metav1.ObjectMeta{Name: "h", UID: "copy", Annotations: map[string]string{infrav1.RestoredAnnotation: "copy"}},
		Spec:       infrav1.HostSpec{HostID: "id"},
	}
	for name, c := range map[string]struct {
		// meanwhile is what happens once the Host there is read.
		meanwhile func(k *Keeper, cancel func())
		busy      bool
		goes      bool
	}{
		"nothing":             {func(*Keeper, func()) {}, false, true},
		"served":              {func(k *Keeper, _ func()) { k.Served() }, false, false},
		"denied":              {func(k *Keeper, _ func()) { k.Unserved(denial) }, false, false},
		"an operation begins": {func(*Keeper, func()) {}, true, false},
		"called off":          {func(_ *Keeper, cancel func()) { cancel() }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			other := newElsewhere(t, restored)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			s.options.Progress = func() (int64, bool) {
				if asked++; asked == 1 {
					c.meanwhile(s.keeper, cancel)
				}
				return 0, c.busy && asked > 1
			}
			s.restart()
			handOver := s.signed(s.key)
			s.set(handOver)
			s.announce(handOver.Revision())
			s.keeper.Unserved(errors.New("connection refused"))
			s.keeper.silent = time.Now().Add(-s.options.Patience)
			if err := s.keeper.settle(ctx, other); other.committed != c.goes || (err == nil) != c.goes {
				t.Errorf("it goes: %t, %v", other.committed, err)
			}
		})
	}
}

// Thousands of hosts wait for an operator's word, for days: they neither ask each second nor
// tell him again and again. Once they are let go, they are quick.
func TestWaitsForAWordInPatience(t *testing.T) {
	s := newScene(t)
	var log bytes.Buffer
	s.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.restart()
	other := newElsewhere(t, &infrav1.Host{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "Host"},
		ObjectMeta: metav1.ObjectMeta{Name: "h", UID: "copy"}, Spec: infrav1.HostSpec{HostID: "id"},
	})
	handOver := s.signed(s.key)
	s.set(handOver)
	s.announce(handOver.Revision())
	s.keeper.Unserved(errors.New("connection refused"))
	s.keeper.silent = time.Now().Add(-s.options.Patience)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := s.keeper.settle(ctx, other); err == nil {
			t.Fatal("it goes")
		}
		cancel()
	}
	if n := strings.Count(log.String(), "did not let go of it"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, log.String())
	}
	for range 100 {
		if again := s.keeper.again(); again < 15*time.Second || again > 30*time.Second {
			t.Fatalf("it asks again after %s", again)
		}
	}
	done, before := make(chan error, 1), other.asked.Load()
	go func() { done <- s.keeper.settle(t.Context(), other) }()
	poll.True(t, "it sends a request", func() bool { return other.asked.Load() > before })
	s.keeper.Unserved(nil)
	if err := poll.Receive(t, "let go, it goes on", done); err != nil || !other.committed {
		t.Errorf("let go, it stays: %v", err)
	}
	if again := s.keeper.again(); again > time.Second {
		t.Errorf("let go, it asks again after %s", again)
	}
}

// A host that was let go and is switched off on its way need not find its management cluster
// alive; one that finds its Host there again stays.
func TestRemembersThatItWasLetGo(t *testing.T) {
	silent := errors.New("connection refused")
	for name, c := range map[string]struct {
		before func(k *Keeper)
		after  error
		goes   bool
	}{
		"let go":          {func(k *Keeper) { k.Unserved(nil) }, silent, true},
		"let go, errors":  {func(k *Keeper) { k.Unserved(nil) }, apierrors.NewServiceUnavailable("no backend"), true},
		"served since":    {func(k *Keeper) { k.Unserved(nil); k.prepare(t.Context()); k.Served() }, silent, false},
		"denied for long": {func(k *Keeper) { k.Unserved(denial); k.denied = time.Now().Add(-time.Hour) }, silent, false},
		"silent for long": {func(k *Keeper) { k.Unserved(silent); k.silent = time.Now().Add(-time.Hour) }, silent, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			handOver := s.signed(s.key)
			s.set(handOver)
			s.announce(handOver.Revision())
			c.before(s.keeper)
			s.keeper.prepare(t.Context())
			s.restart()
			s.keeper.Unserved(c.after)
			if due, _ := s.keeper.abandoned(); due != nil || s.keeper.letGo() {
				t.Error("it goes before it has asked for long")
			}
			s.keeper.away = time.Now().Add(-answeredPatience * s.options.Patience)
			if due, _ := s.keeper.abandoned(); due == nil || s.keeper.letGo() != c.goes {
				t.Errorf("it was let go: %t", s.keeper.letGo())
			}
		})
	}
}
