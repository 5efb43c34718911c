package preflight

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// runTimeout bounds each program.
const runTimeout = 20 * time.Second

// System is the host this process runs on.
type System struct {
	FS     hostfs.Root
	Runner command.Runner
}

// ReadFile implements Host.
func (s System) ReadFile(path string) ([]byte, error) { return s.FS.ReadFile(path) }

// Glob implements Host.
func (s System) Glob(pattern string) []string {
	found, _ := filepath.Glob(s.FS.Path(pattern))
	for i, path := range found {
		found[i] = strings.TrimPrefix(path, string(s.FS))
	}
	return found
}

// Has implements Host.
func (s System) Has(program string) bool { return s.Runner.Has(program) }

// Run implements Host.
func (s System) Run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	out, err := s.Runner.Run(ctx, program, args...)
	return string(out), err
}

// DiskFree implements Host.
func (s System) DiskFree(path string) (uint64, error) {
	free, _, err := s.FS.Space(path)
	return uint64(free), err
}

// Hostname implements Host.
func (s System) Hostname() (string, error) { return os.Hostname() }

// Root implements Host.
func (s System) Root() bool { return os.Geteuid() == 0 }

// Now implements Host.
func (s System) Now() time.Time { return time.Now() }

// Probe implements Host. Any answer over TLS will do: what the token may do is not
// asked, so that nothing is used up and nothing secret is sent.
func (s System) Probe(ctx context.Context, kubeconfig string) (Endpoint, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.FS.Path(kubeconfig))
	if err != nil {
		return Endpoint{}, err
	}
	endpoint := Endpoint{Server: config.Host}
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return endpoint, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/version", http.NoBody)
	if err != nil {
		return endpoint, err
	}
	response, err := client.Do(request)
	if err != nil {
		return endpoint, err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	if response.TLS == nil {
		return endpoint, fmt.Errorf("%s is not served over TLS", config.Host)
	}
	endpoint.Date, _ = http.ParseTime(response.Header.Get("Date"))
	return endpoint, nil
}
