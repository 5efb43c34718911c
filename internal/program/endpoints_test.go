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
	"testing"

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
