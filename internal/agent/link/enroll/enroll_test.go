package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// signer is an API server that knows certificate requests only, and decides on
// each as decide says.
type signer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	// now is its clock.
	now func() time.Time

	mu    sync.Mutex
	filed []string
	// by is who filed each of them: the name in a certificate, or "token".
	by     []string
	csrs   map[string]*certificatesv1.CertificateSigningRequest
	decide func(n int, csr *certificatesv1.CertificateSigningRequest)
	down   int
}

// requests is how many were filed.
func (s *signer) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.filed)
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{key: key, now: time.Now, csrs: map[string]*certificatesv1.CertificateSigningRequest{}}
	s.decide = func(_ int, csr *certificatesv1.CertificateSigningRequest) { s.sign(csr, 365*24*time.Hour) }
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// sign is for a life, or less if that is asked for.
func (s *signer) sign(csr *certificatesv1.CertificateSigningRequest, life time.Duration) {
	if asked := csr.Spec.ExpirationSeconds; asked != nil {
		life = min(life, time.Duration(*asked)*time.Second)
	}
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: request.Subject, NotBefore: s.now().Add(-5 * time.Minute), NotAfter: s.now().Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, s.key)
	if err != nil {
		panic(err)
	}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// authority is the base64 PEM by which the server is verified.
func (s *signer) authority() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func deny(csr *certificatesv1.CertificateSigningRequest, reason string, at time.Time) {
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateDenied, Reason: reason, Message: "no", LastUpdateTime: metav1.NewTime(at),
	}}
}

// ServeHTTP implements http.Handler.
func (s *signer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down > 0 {
		s.down--
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	who, known := s.authenticate(r)
	if !known {
		status(w, metav1.StatusReasonUnauthorized, http.StatusUnauthorized)
		return
	}
	csr := s.csrs[path.Base(r.URL.Path)]
	if r.Method == http.MethodPost {
		csr = &certificatesv1.CertificateSigningRequest{}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, csr); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.filed, s.by = append(s.filed, csr.Name), append(s.by, who)
		s.csrs[csr.Name] = csr
		s.decide(len(s.filed), csr)
	}
	if csr == nil {
		status(w, metav1.StatusReasonNotFound, http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(csr)
}

// authenticate says who asks, and whether they are accepted.
func (s *signer) authenticate(r *http.Request) (string, bool) {
	if len(r.TLS.PeerCertificates) == 0 {
		return "token", r.Header.Get("Authorization") == "Bearer t"
	}
	leaf := r.TLS.PeerCertificates[0]
	authority := &x509.Certificate{PublicKeyAlgorithm: x509.ECDSA, PublicKey: &s.key.PublicKey}
	own := authority.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil
	return leaf.Subject.CommonName, own && s.now().Before(leaf.NotAfter)
}

func status(w http.ResponseWriter, reason metav1.StatusReason, code int) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code),
	})
}

// whoFiled is who filed the requests so far, in short.
func (s *signer) whoFiled() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var who []string
	for _, by := range s.by {
		kind, _, _ := strings.Cut(strings.TrimPrefix(by, "slipway:"), ":")
		who = append(who, kind)
	}
	return strings.Join(who, " ")
}

func enroller(t *testing.T, s *signer) *Enroller {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { onlyStateFiles(t, dir) })
	kubeconfig := filepath.Join(dir, "bootstrap")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {token: t}}]}`, s.URL, s.authority())
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Enroller{
		StateDir: dir, BootstrapKubeconfig: kubeconfig, Namespace: "ns", HostName: "h", Log: slog.New(slog.DiscardHandler), Now: time.Now, AllowLoopback: true,
	}
}

// onlyStateFiles looks for files in a state directory that `slipway-agent uninstall` does not know.
func onlyStateFiles(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "bootstrap" && !slices.Contains(config.StateFiles, name) {
			t.Errorf("%s is not among config.StateFiles", name)
		}
	}
}

func identity(t *testing.T, e *Enroller) string {
	t.Helper()
	id, err := Identity(e.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func enroll(t *testing.T, e *Enroller) *Session {
	t.Helper()
	session, err := e.Enroll(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// renewing runs a session until the test ends.
func renewing(t *testing.T, s *Session) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestEnrollOnceForLife(t *testing.T) {
	s := newSigner(t)
	s.down = 3
	e := enroller(t, s)
	first := enroll(t, e)
	for _, file := range []string{keyFile, enrollmentFile, workingFile, kubeconfigFile} {
		info, err := os.Stat(filepath.Join(e.StateDir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
		}
	}
	if got := s.whoFiled(); got != "token enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
	for _, name := range s.filed {
		if csr := s.csrs[name]; csr.Labels[infrav1.HostLabel] != "h" || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
			t.Errorf("request is %+v", csr)
		}
	}
	id := identity(t, e)
	enrollment, working := first.asking().Leaf, first.current().Leaf
	if enrollment.Subject.CommonName != infrav1.EnrollmentUser("ns", "h", id) || !slices.Equal(enrollment.Subject.Organization, []string{infrav1.EnrollmentGroup}) {
		t.Errorf("subject of the enrollment certificate is %v", enrollment.Subject)
	}
	if working.Subject.CommonName != infrav1.AgentUser("ns", "h", id) || !slices.Equal(working.Subject.Organization, []string{infrav1.AgentGroup}) {
		t.Errorf("subject of the working certificate is %v", working.Subject)
	}
	if first.key.PublicKey.Equal(working.PublicKey) || time.Until(working.NotAfter) > 24*time.Hour {
		t.Errorf("the working certificate is of the identity key, or lasts until %s", working.NotAfter)
	}
	// The token is needed no more.
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	if again := enroll(t, e); again.Config().Host != s.URL || len(s.filed) != 2 || serial(again.current()) != serial(first.current()) {
		t.Errorf("a restart goes to %s and filed %v", again.Config().Host, s.filed)
	}
}

// TestEachWorkingKeyIsNew: who has a working key has it for a day.
func TestEachWorkingKeyIsNew(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	first := session.current()
	now := renewAt(first.Leaf).Add(time.Second)
	s.mu.Lock()
	s.now = func() time.Time { return now }
	s.mu.Unlock()
	e.Now = s.now
	renewing(t, session)
	poll.True(t, "the certificate is replaced", func() bool { return serial(session.current()) != serial(first) })
	if session.current().Leaf.PublicKey.(*ecdsa.PublicKey).Equal(first.Leaf.PublicKey) {
		t.Error("the next certificate is of the same key")
	}
	if got := s.whoFiled(); got != "token enrollment enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
	if exists(t, filepath.Join(e.StateDir, nextKeyFile)) {
		t.Error("the key is kept as the next one, too")
	}
	if kept := e.loadWorking(session.names); serial(kept) != serial(session.current()) {
		t.Error("another certificate is on disk")
	}
}

// TestKeyThatStayedIsNotUsedAgain: the power went when the certificate was saved, and before
// its key was removed as the next one.
func TestKeyThatStayedIsNotUsedAgain(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	first := enroll(t, e).current()
	if err := os.WriteFile(filepath.Join(e.StateDir, nextKeyFile), keyOf(t, first), 0o600); err != nil {
		t.Fatal(err)
	}
	session := enroll(t, e)
	renewing(t, session)
	session.Refused()
	poll.True(t, "the certificate is replaced", func() bool { return serial(session.current()) != serial(first) })
	if session.current().Leaf.PublicKey.(*ecdsa.PublicKey).Equal(first.Leaf.PublicKey) {
		t.Error("the next certificate is of the same key")
	}
}

// TestPowerCutAtEachWrite: whichever of the files the last start wrote, the next one is
// enrolled with them, as the same machine, and without the token once there is an
// enrollment certificate.
func TestPowerCutAtEachWrite(t *testing.T) {
	written := []string{keyFile, enrollmentFile, nextKeyFile, workingFile, kubeconfigFile}
	for cut := range len(written) + 1 {
		t.Run(fmt.Sprintf("after %d", cut), func(t *testing.T) {
			s := newSigner(t)
			e := enroller(t, s)
			id := identity(t, e)
			before := enroll(t, e)
			if err := os.WriteFile(filepath.Join(e.StateDir, nextKeyFile), keyOf(t, before.current()), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, file := range written[cut:] {
				if err := os.Remove(filepath.Join(e.StateDir, file)); err != nil {
					t.Fatal(err)
				}
			}
			session := enroll(t, e)
			if got := identity(t, e); cut > 0 && got != id {
				t.Errorf("it is another machine: %s", got)
			}
			if token := strings.Count(s.whoFiled(), "token"); cut >= 2 && token != 1 {
				t.Errorf("requests were filed by %s", s.whoFiled())
			}
			if again := enroll(t, e); serial(again.current()) != serial(session.current()) {
				t.Error("another start begins anew")
			}
		})
	}
}

func keyOf(t *testing.T, c *tls.Certificate) []byte {
	t.Helper()
	block, err := encodeKey(c.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return block
}

// starts enrolls for a moment again and again, as an agent that is restarted, until enough
// requests were filed.
func starts(t *testing.T, s *signer, e *Enroller, filed int) {
	t.Helper()
	poll.True(t, fmt.Sprintf("%d requests are filed", filed), func() bool {
		start(t, e)
		return s.requests() >= filed
	})
}

// start is one of an agent whose request nobody decides.
func start(t *testing.T, e *Enroller) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := e.Enroll(ctx); err == nil {
		t.Fatal("enrolled without a certificate")
	}
}

func TestRestartFindsItsRequests(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	undecided := func(want int) {
		t.Helper()
		s.mu.Lock()
		s.decide = func(int, *certificatesv1.CertificateSigningRequest) {}
		s.mu.Unlock()
		starts(t, s, e, want)
		for range 3 {
			start(t, e)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.filed) != want {
			t.Fatalf("the starts filed %v", s.filed)
		}
		s.sign(s.csrs[s.filed[want-1]], time.Hour)
	}
	undecided(1)
	undecided(2)
	enroll(t, e)
}

func TestDenialIsNotTheEnd(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	sign := s.decide
	s.decide = func(int, *certificatesv1.CertificateSigningRequest) {}
	starts(t, s, e, 1)
	s.mu.Lock()
	deny(s.csrs[s.filed[0]], "DuplicateIdentity", time.Now().Add(-time.Hour))
	s.decide = sign
	s.mu.Unlock()
	enroll(t, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.filed) != 3 || !strings.HasSuffix(s.filed[0], "-1") || !strings.HasSuffix(s.filed[1], "-2") {
		t.Fatalf("filed %v", s.filed)
	}
}

// TestDenialToAClockThatIsBehind: after a restart the wait is measured from the denial, which
// lies two days ahead, and is no longer for that.
func TestDenialToAClockThatIsBehind(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	e.Now = func() time.Time { return time.Now().Add(-48 * time.Hour) }
	sign := s.decide
	s.decide = func(int, *certificatesv1.CertificateSigningRequest) {}
	starts(t, s, e, 1)
	s.mu.Lock()
	deny(s.csrs[s.filed[0]], "DuplicateIdentity", time.Now())
	s.decide = sign
	s.mu.Unlock()
	enroll(t, e)
}

// TestDenialsDoNotPileUp has a clock that is far ahead of the server's.
func TestDenialsDoNotPileUp(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	e.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.Log = slog.New(logged(func(message string) {
		if strings.Contains(message, "refused the certificate request") {
			cancel() // before it waits
		}
	}))
	s.decide = func(n int, csr *certificatesv1.CertificateSigningRequest) {
		if n == 3 {
			cancel()
		}
		deny(csr, "DuplicateIdentity", time.Now())
	}
	if _, err := e.Enroll(ctx); err == nil {
		t.Fatal("enrolled although denied")
	}
	if n := s.requests(); n != 1 {
		t.Fatalf("filed %d requests before it waited", n)
	}
}

// logged is a log handler that calls a function with each message.
type logged func(message string)

func (logged) Enabled(context.Context, slog.Level) bool        { return true }
func (f logged) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }
func (f logged) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f logged) WithGroup(string) slog.Handler                 { return f }

// TestUnusableCertificatesDoNotPileUp: a signer that issues certificates for another user is not
// asked again without a wait.
func TestUnusableCertificatesDoNotPileUp(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.Log = slog.New(logged(func(message string) {
		if strings.Contains(message, "cannot use") {
			cancel() // before it waits
		}
	}))
	s.decide = func(n int, csr *certificatesv1.CertificateSigningRequest) {
		if n == 3 {
			cancel()
		}
		other := csr.DeepCopy()
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, s.key)
		if err != nil {
			panic(err)
		}
		other.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		s.sign(other, time.Hour)
		csr.Status = other.Status
	}
	if _, err := e.Enroll(ctx); err == nil {
		t.Fatal("enrolled with the certificate of another")
	}
	if n := s.requests(); n != 1 {
		t.Errorf("filed %d requests", n)
	}
}

// TestWrongClockDoesNotFlood: to a clock that is days ahead a new certificate has ended. The
// server takes it all the same, and is not asked again and again.
func TestWrongClockDoesNotFlood(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	ahead := func() time.Time { return time.Now().Add(48 * time.Hour) }
	e.Now = ahead
	session := enroll(t, e)
	if due := session.workingDue(); due.Before(ahead().Add(6 * time.Hour)) {
		t.Errorf("due at %s by a clock that says %s", due, ahead())
	}
	if len(s.filed) != 2 {
		t.Errorf("filed %v", s.filed)
	}
	// Once it is set right, the certificate is due in its day.
	e.Now = time.Now
	if due := session.workingDue(); due.After(session.Expires()) {
		t.Errorf("due at %s by a clock that says %s", due, time.Now())
	}
}

// TestHostThatWasOffForAWeekend: it starts with what it has, whether or not anybody answers,
// and comes back without a token.
func TestHostThatWasOffForAWeekend(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	before := enroll(t, e).current()
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.down, s.now = 5, func() time.Time { return time.Now().Add(72 * time.Hour) }
	s.mu.Unlock()
	e.Now = s.now
	session := enroll(t, e)
	if serial(session.current()) != serial(before) {
		t.Error("the start waited for the management cluster")
	}
	renewing(t, session)
	poll.True(t, "the host has another certificate", func() bool { return session.Expires().After(e.Now()) })
	if got := s.whoFiled(); got != "token enrollment enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
}

// TestHostThatMovedWhileItWasOff: its certificate has ended, so that nobody shows it that its
// Host is gone; the denial of another one says it.
func TestHostThatMovedWhileItWasOff(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	enroll(t, e)
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.now = func() time.Time { return time.Now().Add(72 * time.Hour) }
	s.decide = func(_ int, csr *certificatesv1.CertificateSigningRequest) {
		deny(csr, infrav1.HostUnknownReason, time.Now())
	}
	s.mu.Unlock()
	e.Now = s.now
	session := enroll(t, e)
	var told atomic.Bool
	session.OnGone(func() { told.Store(true) })
	renewing(t, session)
	poll.True(t, "it hears that its Host is gone", told.Load)
}

// TestHostThatWasOffForAYear: its enrollment certificate has ended, too.
func TestHostThatWasOffForAYear(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	enroll(t, e)
	s.mu.Lock()
	s.now = func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }
	s.mu.Unlock()
	e.Now = s.now
	session := enroll(t, e)
	session.Served()
	if !exists(t, e.BootstrapKubeconfig) {
		t.Error("the token is gone before it did its work")
	}
	renewing(t, session)
	poll.True(t, "the host has another certificate", func() bool { return session.Expires().After(e.Now()) })
	if got := s.whoFiled(); got != "token enrollment token enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
}

func TestEnrollmentCertificateIsRenewedByItself(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	old := session.asking()
	now := renewAt(old.Leaf).Add(time.Second)
	s.mu.Lock()
	s.now = func() time.Time { return now }
	s.mu.Unlock()
	e.Now = s.now
	renewing(t, session)
	poll.True(t, "both certificates are replaced", func() bool {
		return serial(session.asking()) != serial(old) && session.Expires().After(now)
	})
	if !session.key.PublicKey.Equal(session.asking().Leaf.PublicKey) {
		t.Error("the enrollment certificate is of another key: that would be another machine")
	}
}

func TestRefusedCertificateIsReplaced(t *testing.T) {
	s := newSigner(t)
	session := enroll(t, enroller(t, s))
	old := serial(session.current())
	renewing(t, session)
	session.Refused()
	poll.True(t, "the certificate is replaced", func() bool { return serial(session.current()) != old })
	if got := s.whoFiled(); got != "token enrollment enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
}

// TestRefusedEnrollmentIsReplaced: another CA accepts nothing but the token.
func TestRefusedEnrollmentIsReplaced(t *testing.T) {
	first, s := newSigner(t), newSigner(t)
	enrolled := enroller(t, first)
	enroll(t, enrolled)
	e := enroller(t, s)
	e.StateDir = enrolled.StateDir
	session := enroll(t, e)
	renewing(t, session)
	session.Refused()
	poll.True(t, "the other management cluster signs", func() bool { return s.whoFiled() == "token enrollment" })
}

// TestDeletedHostComesBackByAToken: an operator who deletes the Host, and wants it back, puts a
// token there.
func TestDeletedHostComesBackByAToken(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	sign := s.decide
	s.mu.Lock()
	s.decide = func(n int, csr *certificatesv1.CertificateSigningRequest) {
		if n == 3 {
			deny(csr, infrav1.HostUnknownReason, time.Now().Add(-time.Minute))
			return
		}
		sign(n, csr)
	}
	s.mu.Unlock()
	old := serial(session.current())
	renewing(t, session)
	session.Refused()
	poll.True(t, "the host is enrolled again", func() bool { return serial(session.current()) != old })
	if got := s.whoFiled(); got != "token enrollment enrollment token enrollment" {
		t.Errorf("requests were filed by %s", got)
	}
}

// TestHostIsDeletedAgain: the requests of the first return are there still when the Host is deleted once more, within
// the hour that the API server keeps them.
func TestHostIsDeletedAgain(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	there, sign := false, s.decide
	s.decide = func(n int, csr *certificatesv1.CertificateSigningRequest) {
		if s.by[n-1] == "token" {
			there = true // the manager makes the Host
		}
		if !there {
			deny(csr, infrav1.HostUnknownReason, time.Now().Add(-time.Minute))
			return
		}
		sign(n, csr)
	}
	enroll(t, e)
	for range 3 {
		s.mu.Lock()
		there = false
		s.mu.Unlock()
		for _, file := range []string{workingFile, enrollmentFile} {
			if err := os.Remove(filepath.Join(e.StateDir, file)); err != nil {
				t.Fatal(err)
			}
		}
		enroll(t, e)
		s.mu.Lock()
		if !there {
			t.Error("the agent works without a Host")
		}
		s.mu.Unlock()
	}
}

func TestTransferAsksOnce(t *testing.T) {
	source, target := newSigner(t), newSigner(t)
	e := enroller(t, source)
	session := enroll(t, e)
	kubeconfig, err := os.ReadFile(enroller(t, target).BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var transfer *Transfer
	for range 3 {
		if transfer, err = session.Transfer(t.Context(), kubeconfig, "hand-over 1"); err != nil {
			t.Fatal(err)
		}
		transfer.Close()
	}
	if got := target.whoFiled(); got != "token enrollment" {
		t.Errorf("three tries filed %s", got)
	}
	if _, labelled := target.csrs[target.filed[0]].Labels[infrav1.HandOverLabel]; !labelled {
		t.Error("the target makes a Host of it")
	}
	if err := transfer.Commit(); err != nil {
		t.Fatal(err)
	}
	there := enroll(t, e)
	if there.Config().Host != target.URL || serial(there.current()) != serial(transfer.working) || serial(there.asking()) != serial(transfer.enrollment) {
		t.Errorf("after the hand-over it goes to %s", there.Config().Host)
	}
}

// TestPowerCutAtHandOver: after each of the three writes the host gets to the target, after
// the first one by the token.
func TestPowerCutAtHandOver(t *testing.T) {
	for i, want := range []string{"token enrollment token enrollment", "token enrollment enrollment", "token enrollment"} {
		t.Run(fmt.Sprintf("after %d", i+1), func(t *testing.T) {
			source, target := newSigner(t), newSigner(t)
			e := enroller(t, source)
			session := enroll(t, e)
			kubeconfig, err := os.ReadFile(enroller(t, target).BootstrapKubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			transfer, err := session.Transfer(t.Context(), kubeconfig, "hand-over 1")
			if err != nil {
				t.Fatal(err)
			}
			transfer.Close()
			enrollment, working := session.asking(), session.current()
			if err := transfer.Commit(); err != nil {
				t.Fatal(err)
			}
			if i < 1 {
				err = e.saveEnrollment(enrollment)
			}
			if i < 2 && err == nil {
				err = e.saveWorking(working, working.PrivateKey.(*ecdsa.PrivateKey))
			}
			if err != nil {
				t.Fatal(err)
			}
			there := enroll(t, e)
			if there.Config().Host != target.URL {
				t.Fatalf("it goes to %s", there.Config().Host)
			}
			renewing(t, there)
			if i < 2 {
				there.Refused()
			}
			poll.True(t, "the target accepts it", func() bool {
				_, accepted := target.authenticate(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{there.current().Leaf}}})
				return accepted
			})
			if got := target.whoFiled(); got != want {
				t.Errorf("requests were filed by %s", got)
			}
		})
	}
}

// TestHandOverThatCannotBeKept: the certificates of here stay, as those of there are refused
// here, and no token is left.
func TestHandOverThatCannotBeKept(t *testing.T) {
	source, target := newSigner(t), newSigner(t)
	e := enroller(t, source)
	session := enroll(t, e)
	kubeconfig, err := os.ReadFile(enroller(t, target).BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transfer, err := session.Transfer(t.Context(), kubeconfig, "hand-over 1")
	if err != nil {
		t.Fatal(err)
	}
	defer transfer.Close()
	home := filepath.Join(e.StateDir, host.HomeFile)
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := transfer.Commit(); err == nil {
		t.Fatal("committed")
	}
	if err := os.Remove(home); err != nil {
		t.Fatal(err)
	}
	here := enroll(t, e)
	if serial(here.current()) != serial(session.current()) || serial(here.asking()) != serial(session.asking()) {
		t.Error("it has certificates of another management cluster")
	}
}

// TestRenewalsAreSpread: hosts that enrolled together come about two thirds of a day later,
// but not together.
func TestRenewalsAreSpread(t *testing.T) {
	from := time.Unix(1e9, 0)
	var parts []float64
	for i := range 1000 {
		leaf := &x509.Certificate{Raw: fmt.Append(nil, "certificate ", i), NotBefore: from, NotAfter: from.Add(24 * time.Hour)}
		parts = append(parts, renewAt(leaf).Sub(from).Hours()/24)
	}
	slices.Sort(parts)
	if parts[0] < renewFrom || parts[0] > renewFrom+0.01 || parts[999] > renewFrom+renewWithin || parts[999] < renewFrom+renewWithin-0.01 {
		t.Errorf("between %v and %v of the life", parts[0], parts[999])
	}
}

func TestDamagedKeyIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Identity(dir); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("error is %v", err)
	}
}

func TestHostNameIsKept(t *testing.T) {
	dir := t.TempDir()
	fine := func(string) error { return nil }
	first, err := HostName(dir, "", fine)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, nameFile), []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := HostName(dir, "", fine); err != nil || again != "earlier" || first == "" {
		t.Errorf("name is %q after %q: %v", again, first, err)
	}
	if set, err := HostName(dir, "set", fine); err != nil || set != "set" {
		t.Errorf("name is %q: %v", set, err)
	}
}

func TestMissingBootstrapKubeconfigTellsWhatToDo(t *testing.T) {
	e := &Enroller{StateDir: t.TempDir(), BootstrapKubeconfig: filepath.Join(t.TempDir(), "none"), Log: slog.New(slog.DiscardHandler)}
	if _, err := e.server(); err == nil || !strings.Contains(err.Error(), "slipway host token") {
		t.Fatalf("error is %v", err)
	}
}
