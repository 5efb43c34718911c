package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// Programs is the folder of prometheus and promtool, which `make prometheus` fills.
func Programs(bin string) string { return filepath.Join(bin, "prometheus") }

// Prometheus is a server on loopback that ends with its test.
type Prometheus struct{ promv1.API }

// Start starts a server with an environment and a configuration, and waits until it
// answers. Its data ends with the test.
func Start(t *testing.T, bin string, environ []string, configuration string) *Prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := shared.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port[0])
	cmd := exec.Command(filepath.Join(Programs(bin), "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Env = environ
	run(t, cmd)
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{promv1.NewAPI(client)}
	poll.Until(t, "prometheus answers", func() error {
		_, err := p.Runtimeinfo(t.Context())
		return err
	})
	return p
}

// run runs a program until the test ends, and shows what it printed if the test failed.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run `make prometheus` first", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), log.String())
		}
	})
}

// Firing are the labels of the alerts of a name that fire.
func (p *Prometheus) Firing(ctx context.Context, name string) ([]model.LabelSet, error) {
	all, err := p.Alerts(ctx)
	var firing []model.LabelSet
	for _, alert := range all.Alerts {
		if alert.Labels["alertname"] == model.LabelValue(name) && alert.State == promv1.AlertStateFiring {
			firing = append(firing, alert.Labels)
		}
	}
	return firing, err
}

// Reach makes what is served on a socket reachable on loopback until the test ends, and
// returns the address: Prometheus scrapes no sockets.
func Reach(t *testing.T, socket string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "plane"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}
