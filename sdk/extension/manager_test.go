package extension_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/poll"
)

// runnable repeats the interfaces of controller-runtime for a part of a manager: manager.Runnable, LeaderElectionRunnable
// and a healthz.Checker.
type runnable interface {
	Start(ctx context.Context) error
	NeedLeaderElection() bool
	Check(r *http.Request) error
}

// TestServerIsARunnable holds that a manager can start a server, in every replica, and knows when it serves.
func TestServerIsARunnable(t *testing.T) {
	ca := hooktest.NewCA(t)
	certFile, keyFile := ca.Files(t.TempDir(), "server")
	server := newServer(t, extension.Options{Address: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile})
	var part runnable = server
	probe := httptest.NewRequest(http.MethodGet, "/readyz/hooks", http.NoBody)
	if part.NeedLeaderElection() || part.Check(probe) == nil {
		t.Error("it serves only on the leader, or before its start")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- part.Start(ctx) }()
	poll.Until(t, "it serves", func() error { return part.Check(probe) })
	stop()
	if err := <-ended; err != nil || part.Check(probe) == nil {
		t.Errorf("after the end: %v, and it is still ready", err)
	}
}

// TestClientNames holds that of a CA which signs for others as well, only the callers that are named may call, and
// that probes need no name.
func TestClientNames(t *testing.T) {
	ca := hooktest.NewCA(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{ClientCAFile: file, ClientNames: []string{"core"}}, func(s *extension.Server) error { return handle(s, "h", answerNil) })
	for name, want := range map[string]int{"core": http.StatusOK, "other": http.StatusForbidden, "": http.StatusUnauthorized} {
		var pairs []tls.Certificate
		if name != "" {
			pair, err := tls.X509KeyPair(ca.Issue(name))
			if err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, pair)
		}
		client := httpClient(ext.CA, pairs...)
		if code, err := get(client, ext.URL+"/openapi/v3"); err != nil || code != want {
			t.Errorf("%q: got %d, %v, want %d", name, code, err, want)
		}
		if code, err := get(client, ext.URL+"/readyz"); err != nil || code != http.StatusOK {
			t.Errorf("%q: /readyz: %d, %v", name, code, err)
		}
	}
	if _, err := extension.New(extension.Options{ClientNames: []string{"core"}}); err == nil {
		t.Error("names without a CA are accepted, and nobody checks them")
	}
}

// TestMetricsAreServedElsewhere holds that metrics in the registry of a manager need not be served to who may call hooks.
func TestMetricsAreServedElsewhere(t *testing.T) {
	const secret = "metrics_of_the_manager"
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: secret}))
	for name, tt := range map[string]struct {
		options extension.Options
		served  []string
	}{
		"a registry":            {extension.Options{Metrics: registry}, []string{secret, "runtime_extension_handlers_running"}},
		"elsewhere":             {extension.Options{Metrics: registry, Gatherer: prometheus.Gatherers{}}, nil},
		"one that cannot tell":  {extension.Options{Metrics: prometheus.WrapRegistererWithPrefix("x_", registry)}, nil},
		"the default":           {extension.Options{}, []string{"runtime_extension_handlers_running"}},
		"what else is gathered": {extension.Options{Gatherer: registry}, []string{secret}},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			newServer(t, tt.options).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			page, err := io.ReadAll(w.Body)
			if err != nil || w.Code != http.StatusOK {
				t.Fatal(w.Code, err)
			}
			for _, want := range tt.served {
				if !strings.Contains(string(page), want) {
					t.Errorf("%s is not served:\n%s", want, page)
				}
			}
			if len(tt.served) < 2 && name != "what else is gathered" && strings.Contains(string(page), secret) {
				t.Errorf("the metrics of the manager are served:\n%s", page)
			}
		})
	}
	if families, err := registry.Gather(); err != nil || len(families) < 3 {
		t.Errorf("%d metrics are in the registry: %v", len(families), err)
	}
}
