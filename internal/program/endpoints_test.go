package program

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// TestEndpointsLimitConnections holds that the endpoints of a manager answer, and that each has a limit of connections
// at which the one that has been silent for the longest time gives way: one that may be idle for 90 s is closed before
// those that wait for their first request, for at most 10 s. A client that was authorized keeps its connection.
func TestEndpointsLimitConnections(t *testing.T) {
	e := endpoints(t)
	for _, endpoint := range []struct {
		name, address, path string
		secure              bool
		status              int
	}{
		{"probes", e.Probes, "/readyz/ping", false, http.StatusOK},
		{"metrics", e.Metrics, "/metrics", true, http.StatusUnauthorized},
		{"webhooks", net.JoinHostPort(e.WebhookHost, fmt.Sprint(e.WebhookPort)), "/none", true, http.StatusNotFound},
	} {
		t.Run(endpoint.name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan net.Conn, 1000)
			open := func(secure bool) net.Conn {
				c, err := connect(t, endpoint.address, secure)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			watch := func(c net.Conn) {
				go func() {
					_, _ = io.Copy(io.Discard, c)
					closed <- c
				}()
			}
			var authorized net.Conn
			if endpoint.name == "metrics" {
				authorized = open(true)
				request(t, authorized, endpoint.path, "good", http.StatusOK)
			}
			idle := open(endpoint.secure)
			request(t, idle, endpoint.path, "", endpoint.status)
			watch(idle)
			for range 256 {
				watch(open(false))
			}
			if first := <-closed; first != idle {
				t.Error("the idle connection was not the first that was closed")
			}
			if authorized != nil {
				request(t, authorized, endpoint.path, "good", http.StatusOK)
			}
		})
	}
}

// TestEndpointsBoundWhatTheyRead holds that a connection has one request at a time, and that neither a body without an
// end nor many that wait for their rest take the memory from others: those that sent most end.
func TestEndpointsBoundWhatTheyRead(t *testing.T) {
	e := endpoints(t)
	webhooks := net.JoinHostPort(e.WebhookHost, fmt.Sprint(e.WebhookPort))
	for _, address := range []string{e.Metrics, webhooks} {
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}}).DialContext(t.Context(), "tcp", address) //nolint:gosec // the certificate is not the point
		if err != nil {
			t.Fatal(err)
		}
		if got := c.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("%s speaks %s", address, got)
		}
		_ = c.Close()
	}
	send := func(length, bytes int64) (net.Conn, int64, error) {
		c, err := connect(t, webhooks, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "POST /read HTTP/1.1\r\nHost: manager\r\nContent-Length: %d\r\n\r\n", length); err != nil {
			t.Fatal(err)
		}
		sent, err := io.CopyN(c, zeros{}, bytes)
		return c, sent, err
	}
	modest, _, err := send(2<<10, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, sent, err := send(1<<40, 2*maxBodies); err == nil {
		t.Errorf("a request of %d MiB is read", sent>>20)
	}
	for range 3 {
		if _, _, err := send(1<<40, maxBodies/2); err != nil {
			break // it sent most
		}
	}
	if _, err := modest.Write(make([]byte, 1<<10)); err != nil {
		t.Error(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(modest), nil)
	if err != nil {
		t.Fatalf("one that sent little was ended: %v", err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", response.Status, err)
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestBodyHasAnEnd has a client send a byte of a body now and then.
func TestBodyHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, accepted := net.Pipe()
		server := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		served := make(chan error, 1)
		go func() { served <- server.Serve(&once{conn: accepted, closed: make(chan struct{})}) }()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		began := time.Now()
		_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: manager\r\nContent-Length: 1000\r\n\r\n")
		for err == nil && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
			_, err = client.Write([]byte{0})
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it was read for %s", took)
		}
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// once is a listener of one connection.
type once struct {
	conn   net.Conn
	closed chan struct{}
	close  sync.Once
}

func (l *once) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *once) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (*once) Addr() net.Addr { return &net.TCPAddr{} }

// endpoints runs a manager, which needs no API server but for who is authorized.
func endpoints(t *testing.T) Endpoints {
	t.Helper()
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", shared.FreePort(t)) }
	e := Endpoints{Probes: at(), Metrics: at(), WebhookHost: "127.0.0.1", WebhookPort: shared.FreePort(t), WebhookCertDir: t.TempDir()}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("webhooks", nil, nil)
	if err := errors.Join(err, os.WriteFile(filepath.Join(e.WebhookCertDir, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(e.WebhookCertDir, "tls.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	reviews := httptest.NewServer(http.HandlerFunc(review))
	t.Cleanup(reviews.Close)
	m, err := NewManager(&rest.Config{Host: reviews.URL}, ctrl.Options{}, e)
	if err := errors.Join(err, m.AddReadyzCheck("ping", healthz.Ping), m.AddReadyzCheck("webhooks", m.GetWebhookServer().StartedChecker())); err != nil {
		t.Fatal(err)
	}
	m.GetWebhookServer().Register("/read", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	poll.Until(t, "the webhooks are served", func() error {
		response, err := http.Get("http://" + e.Probes + "/readyz") //nolint:noctx // poll bounds it
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
	return e
}

// review authenticates the token "good", and lets its user do anything.
func review(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		var asked authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&asked)
		asked.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
		asked.Status = authenticationv1.TokenReviewStatus{Authenticated: asked.Spec.Token == "good", User: authenticationv1.UserInfo{Username: "prometheus"}}
		_ = json.NewEncoder(w).Encode(asked)
		return
	}
	_ = json.NewEncoder(w).Encode(authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true},
	})
}

func connect(t *testing.T, address string, secure bool) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	if !secure {
		return c, nil
	}
	encrypted := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is not the point
	return encrypted, encrypted.HandshakeContext(t.Context())
}

// request sends one on a connection, with a token unless it is empty, and checks the status of the answer.
func request(t *testing.T, c net.Conn, path, token string, want int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://manager"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if err := r.Write(c); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != want {
		t.Fatalf("%s answers %s, %v", path, response.Status, err)
	}
}
