package vip

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// hostAPI is one whose API server is the server, by the files of kubeadm.
func hostAPI(t *testing.T, server *httptest.Server) *LocalServer {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	path := root.Path(localConfig)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: u, user: {token: never-sent}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
		server.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.MkdirAll(root.Path("/etc/kubernetes/pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{localConfig: kubeconfig, authority: string(ca)} {
		if err := os.WriteFile(root.Path(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &LocalServer{Root: root, Now: time.Now}
}

// apiServer answers like one that gives nothing to strangers, with a certificate for 127.0.0.1.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a credential is sent to who is not known yet")
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return server
}

func at(t *testing.T, l net.Listener) netip.AddrPort {
	t.Helper()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// listener is a port at which something that is no API server of the cluster may be.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// What counts is that an API server of the cluster answers at address and port, by TLS.
func TestAnswers(t *testing.T) {
	server := apiServer(t)
	s := hostAPI(t, server)
	if err := s.Answers(t.Context(), at(t, server.Listener)); err != nil {
		t.Errorf("the API server answers, and the error is %v", err)
	}
	closed := listener(t)
	_ = closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	ended := listener(t)
	go func() {
		for {
			c, err := ended.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	for name, l := range map[string]net.Listener{"nothing": closed, "a program without TLS": plain.Listener, "a program that hangs up": ended} {
		if err := s.Answers(t.Context(), at(t, l)); err == nil {
			t.Errorf("%s at the port counts as an API server", name)
		}
	}
	// The certificate must name the address: 127.0.0.2 is not in it.
	other, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip(err)
	}
	misnamed := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = misnamed.Listener.Close()
	misnamed.Listener = other
	misnamed.StartTLS()
	t.Cleanup(misnamed.Close)
	if err := s.Answers(t.Context(), at(t, other)); err == nil {
		t.Error("a certificate that does not name the address is accepted")
	}
	if err := (&LocalServer{Root: hostfs.Root(t.TempDir()), Now: time.Now}).Answers(t.Context(), at(t, server.Listener)); !errors.Is(err, ErrNoControlPlane) {
		t.Errorf("without a control plane the error is %v", err)
	}
}

// The clock of a host may be wrong until it has found a time server: the certificate of the election is
// made again when it is set, and whenever the API server refuses it.
func TestClockThatIsSet(t *testing.T) {
	now := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	var refused *big.Int
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch leaf := r.TLS.PeerCertificates[0]; {
		case now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) || refused != nil && refused.Cmp(leaf.SerialNumber) == 0:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			refused = leaf.SerialNumber
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}`))
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	s := hostAPI(t, server)
	s.Now = func() time.Time { return now }
	key, err := keyutil.MarshalPrivateKeyToPEM(server.TLS.Certificates[0].PrivateKey)
	if err == nil {
		err = os.WriteFile(s.Root.Path(signingKey), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]func() error{
		"Ready": func() error { return s.Ready(t.Context()) },
		"Lease": func() error { _, err := s.Lease(t.Context()); return err },
		"UpdateLease": func() error {
			_, err := s.UpdateLease(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: LeaseNamespace, Name: LeaseName}})
			return err
		},
	}
	for name, request := range requests {
		now, refused = now.AddDate(-1, 0, 0), nil
		if err := request(); err != nil {
			t.Errorf("%s after the clock was set back by a year: %v", name, err)
		}
		if err := request(); !apierrors.IsUnauthorized(err) {
			t.Fatalf("%s with a certificate that is refused: %v", name, err)
		}
		if err := request(); err != nil {
			t.Errorf("%s after the API server refused the certificate: %v", name, err)
		}
	}
}

// The host's own API server serves the port that kubeadm had it listen at, and no other unless
// a program there passes on to it.
func TestServes(t *testing.T) {
	server, forward := apiServer(t), apiServer(t)
	s := hostAPI(t, server)
	own := at(t, server.Listener).Port()
	if err := s.Serves(t.Context(), own); err != nil {
		t.Errorf("at its own port: %v", err)
	}
	if err := s.Serves(t.Context(), at(t, forward.Listener).Port()); err != nil {
		t.Errorf("at a port that is passed on: %v", err)
	}
	closed := listener(t)
	_ = closed.Close()
	other := (*PortError)(nil)
	if err := s.Serves(t.Context(), at(t, closed).Port()); !errors.As(err, &other) || other.Port != at(t, closed).Port() || other.Listens != fmt.Sprint(own) {
		t.Errorf("at a port where nothing listens: %v", err)
	}
}

// Port 443 is the one that a URL does not name.
func TestServesThePortThatAURLLeavesOut(t *testing.T) {
	server := apiServer(t)
	server.URL = "https://127.0.0.1"
	if err := hostAPI(t, server).Serves(t.Context(), 443); err != nil {
		t.Error(err)
	}
}

// The hosts of a control plane have one key of the authority, by which each knows the seal of another.
func TestSealIsOfTheControlPlane(t *testing.T) {
	server := apiServer(t)
	host := func(keys ...any) *LocalServer {
		s := hostAPI(t, server)
		for _, key := range keys {
			data, err := keyutil.MarshalPrivateKeyToPEM(key)
			if err == nil {
				err = os.WriteFile(s.Root.Path(signingKey), append(data, '\n'), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := server.TLS.Certificates[0].PrivateKey
	seal := host(own).Seal("a")
	if seal == "" || host(own).Seal("a") != seal || host(own).Seal("b") == seal || host(other).Seal("a") == seal || host().Seal("a") != "" {
		t.Errorf("the seals are %q, %q, %q, %q and %q", seal, host(own).Seal("a"), host(own).Seal("b"), host(other).Seal("a"), host().Seal("a"))
	}
}
