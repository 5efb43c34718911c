package extension_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestReloadsAreTold replaces both certificates of a server by what is none, and by
// others. Every look is counted; the log tells each error once.
func TestReloadsAreTold(t *testing.T) {
	dir := t.TempDir()
	first, second := hooktest.NewCA(t), hooktest.NewCA(t)
	certFile, keyFile := first.Files(dir, "server")
	caFile := dir + "/callers.crt"
	write := func(file string, content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(caFile, first.PEM)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		metrics := prometheus.NewRegistry()
		s, err := extension.New(extension.Options{
			CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile, Metrics: metrics, Logger: logr.FromSlogHandler(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		config, err := s.TLSConfig()
		if err != nil {
			t.Fatal(err)
		}
		// A connection is when the server looks at its files.
		connect := func() {
			t.Helper()
			time.Sleep(2 * time.Second)
			current, err := config.GetConfigForClient(nil)
			if err != nil {
				t.Fatal(err)
			}
			if pair, err := current.GetCertificate(nil); err != nil || pair == nil || current.ClientCAs == nil {
				t.Fatalf("got the certificate %v, the client CAs %v, the error %v", pair, current.ClientCAs, err)
			}
		}
		connect()
		if log.Len() > 0 {
			t.Errorf("nothing was replaced, the log says %s", &log)
		}
		write(caFile, []byte("half a file"))
		write(certFile, first.PEM)
		connect()
		connect()
		write(caFile, second.PEM)
		second.Files(dir, "server")
		connect()
		connect()
		for text, want := range map[string]int{
			"the one before stays in use": 2, "certificate=client-ca": 2, "certificate=serving": 2, "was read again": 2, "no certificate in PEM form": 1,
		} {
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, &log)
			}
		}
		want := `# HELP runtime_extension_certificate_reloads_total Looks at files of certificates that were replaced, by result (success, error) and certificate (serving, client-ca).
# TYPE runtime_extension_certificate_reloads_total counter
runtime_extension_certificate_reloads_total{certificate="client-ca",result="error"} 2
runtime_extension_certificate_reloads_total{certificate="client-ca",result="success"} 1
runtime_extension_certificate_reloads_total{certificate="serving",result="error"} 2
runtime_extension_certificate_reloads_total{certificate="serving",result="success"} 1
`
		if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "runtime_extension_certificate_reloads_total"); err != nil {
			t.Error(err)
		}
	})
}
