package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// signer is an API server that knows certificate requests only, and decides on
// each as decide says.
type signer struct {
	*httptest.Server
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	filed  []string
	csrs   map[string]*certificatesv1.CertificateSigningRequest
	decide func(n int, csr *certificatesv1.CertificateSigningRequest)
	down   int
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{key: key, csrs: map[string]*certificatesv1.CertificateSigningRequest{}}
	s.decide = func(_ int, csr *certificatesv1.CertificateSigningRequest) { s.sign(csr, time.Hour) }
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *signer) sign(csr *certificatesv1.CertificateSigningRequest, life time.Duration) {
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: request.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
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

func deny(csr *certificatesv1.CertificateSigningRequest, at time.Time) {
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateDenied, Reason: "DuplicateIdentity", Message: "another key", LastUpdateTime: metav1.NewTime(at),
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
	csr := s.csrs[path.Base(r.URL.Path)]
	if r.Method == http.MethodPost {
		csr = &certificatesv1.CertificateSigningRequest{}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, csr); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.filed = append(s.filed, csr.Name)
		s.csrs[csr.Name] = csr
		s.decide(len(s.filed), csr)
	}
	if csr == nil {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		})
		return
	}
	_ = json.NewEncoder(w).Encode(csr)
}

func enroller(t *testing.T, s *signer) *Enroller {
	t.Helper()
	dir := t.TempDir()
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	session, err := e.Enroll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func TestEnrollOnceForLife(t *testing.T) {
	s := newSigner(t)
	s.down = 3
	e := enroller(t, s)
	first := enroll(t, e)
	for _, file := range []string{keyFile, certificateFile, kubeconfigFile} {
		info, err := os.Stat(filepath.Join(e.StateDir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
		}
	}
	csr := s.csrs[s.filed[0]]
	if csr.Labels[infrav1.HostLabel] != "h" || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		t.Errorf("request is %+v", csr)
	}
	leaf := first.current().Leaf
	if leaf.Subject.CommonName != infrav1.AgentUser("ns", "h", identity(t, e)) || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != infrav1.AgentGroup {
		t.Errorf("subject is %v", leaf.Subject)
	}
	// The token is needed no more.
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	if again := enroll(t, e); again.Config().Host != s.URL || len(s.filed) != 1 {
		t.Errorf("a restart goes to %s and filed %v", again.Config().Host, s.filed)
	}
}

func TestRestartFindsItsRequest(t *testing.T) {
	s := newSigner(t)
	s.decide = func(int, *certificatesv1.CertificateSigningRequest) {}
	e := enroller(t, s)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := e.Enroll(ctx); err == nil {
			t.Fatal("enrolled without a certificate")
		}
		cancel()
	}
	if len(s.filed) != 1 {
		t.Fatalf("three starts filed %v", s.filed)
	}
	s.mu.Lock()
	s.sign(s.csrs[s.filed[0]], time.Hour)
	s.mu.Unlock()
	enroll(t, e)
}

func TestDenialIsNotTheEnd(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	s.decide = func(int, *certificatesv1.CertificateSigningRequest) {}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _ = e.Enroll(ctx)
	s.mu.Lock()
	deny(s.csrs[s.filed[0]], time.Now().Add(-time.Hour))
	s.decide = func(_ int, csr *certificatesv1.CertificateSigningRequest) { s.sign(csr, time.Hour) }
	s.mu.Unlock()
	enroll(t, e)
	if len(s.filed) != 2 || !strings.HasSuffix(s.filed[0], "-1") || !strings.HasSuffix(s.filed[1], "-2") {
		t.Fatalf("filed %v", s.filed)
	}
}

// TestDenialsDoNotPileUp has a clock that is far ahead of the server's.
func TestDenialsDoNotPileUp(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	e.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	s.decide = func(_ int, csr *certificatesv1.CertificateSigningRequest) { deny(csr, time.Now()) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := e.Enroll(ctx); err == nil {
		t.Fatal("enrolled although denied")
	}
	if len(s.filed) != 1 {
		t.Fatalf("filed %v within a second", s.filed)
	}
}

func TestExpiredCertificateIsReplacedWithTheToken(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	s.decide = func(n int, csr *certificatesv1.CertificateSigningRequest) { s.sign(csr, time.Duration(n)*time.Hour) }
	enroll(t, e)
	e.Now = func() time.Time { return time.Now().Add(90 * time.Minute) }
	session := enroll(t, e)
	if len(s.filed) != 2 || session.Expires().Before(e.Now()) {
		t.Fatalf("filed %v, expires %v", s.filed, session.Expires())
	}
}

func TestRefusedCertificateIsReplaced(t *testing.T) {
	s := newSigner(t)
	session := enroll(t, enroller(t, s))
	old := serial(session.current())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { session.Run(ctx); close(done) }()
	session.Refused()
	for deadline := time.Now().Add(20 * time.Second); serial(session.current()) == old; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the certificate was not replaced")
		}
	}
	cancel()
	<-done
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
	e := &Enroller{StateDir: t.TempDir(), BootstrapKubeconfig: "/nonexistent", Log: slog.New(slog.DiscardHandler)}
	if _, err := e.server(); err == nil || !strings.Contains(err.Error(), "slipway host token") {
		t.Fatalf("error is %v", err)
	}
}
