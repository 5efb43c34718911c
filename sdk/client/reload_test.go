package client_test

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/poll"
)

// TestReloadsAreTold replaces the certificate of a caller by what is none, with which
// calls go on, and by another one. Each look is counted; an error is told once.
func TestReloadsAreTold(t *testing.T) {
	dir := t.TempDir()
	ca := hooktest.NewCA(t)
	certFile, keyFile := ca.Files(dir, "caller")
	ext := hooktest.Start(t, extension.Options{}, handles)
	var mu sync.Mutex
	var told []error
	metrics := prometheus.NewRegistry()
	c := newClient(t, client.Options{
		CertFile: certFile, KeyFile: keyFile, Backoff: noBackoff, Metrics: metrics,
		OnReload: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		},
	}, discovered(ext, ext.CA.PEM))
	// looks waits until that many looks had the result.
	looks := func(result string, n float64) {
		t.Helper()
		poll.Until(t, result, func() error {
			if _, err := create(t.Context(), t, c); err != nil {
				t.Errorf("a call while the certificate is replaced: %v", err)
			}
			if count(t, metrics, "runtime_client_certificate_reloads_total", result) < n {
				return errors.New("not looked at")
			}
			return nil
		})
	}
	if err := os.WriteFile(certFile, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	looks("error", 2)
	ca.Files(dir, "caller")
	looks("success", 1)
	mu.Lock()
	defer mu.Unlock()
	// While its files are written the pair may be looked at once more, with another error.
	if len(told) < 2 || told[0] == nil || told[len(told)-1] != nil {
		t.Fatalf("told %v, want the error, then nil", told)
	}
	for i, err := range told[1 : len(told)-1] {
		if err == nil || err.Error() == told[i].Error() {
			t.Errorf("told %v, want each error once", told)
		}
	}
}

// TestNewCertificateMakesNewConnections replaces the certificate of a caller by another one
// of the same CA: the connection that was made with the former is not used any more.
func TestNewCertificateMakesNewConnections(t *testing.T) {
	dir := t.TempDir()
	ca := hooktest.NewCA(t)
	caFile := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(caFile, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := ca.Files(dir, "caller")
	presented := make(chan *x509.Certificate, 1)
	tell := func(next extension.Func) extension.Func {
		return func(ctx context.Context, call *extension.Call) (hooksv1.ResponseObject, error) {
			presented <- call.TLS.PeerCertificates[0]
			return next(ctx, call)
		}
	}
	ext := hooktest.Start(t, extension.Options{ClientCAFile: caFile}, func(s *extension.Server) error {
		return extension.Handle[req, resp](s, capi.BeforeClusterCreate, "h", succeed, extension.WithInterceptors(tell))
	})
	c := newClient(t, client.Options{CertFile: certFile, KeyFile: keyFile}, discovered(ext, ext.CA.PEM))
	present := func() *x509.Certificate {
		t.Helper()
		if _, err := create(t.Context(), t, c); err != nil {
			t.Fatal(err)
		}
		return <-presented
	}
	former := present()
	ca.Files(dir, "caller")
	poll.Until(t, "the new certificate", func() error {
		if present().Equal(former) {
			return errors.New("the former is presented")
		}
		return nil
	})
}

// count returns the counter of that name with the label value result.
func count(t *testing.T, metrics *prometheus.Registry, name, result string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == result {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
