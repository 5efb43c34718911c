package enroll

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/host"
)

// A host that was handed over stays where it is, although its first bootstrap
// kubeconfig is still there; a new one is the operator's word.
func TestHandedOverHostStaysThere(t *testing.T) {
	e := enroller(t, newSigner(t))
	first, err := e.server()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := func(server string) []byte {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: Q0E=}}], users: [{name: u, user: {token: second}}]}`, server)
	}
	const second, third = "https://second.example:6443", "https://third.example:6443"
	if err := e.moveHome(kubeconfig(second)); err != nil {
		t.Fatal(err)
	}
	server, err := e.server()
	if err != nil || server.Host != second || server.Host == first.Host || server.BearerToken != "" {
		t.Fatalf("the agent goes to %+v, %v", server, err)
	}
	if token, err := e.bootstrap(); err != nil || token.Host != second || token.BearerToken != "second" {
		t.Errorf("it enrolls at %+v, %v", token, err)
	}
	if err := os.WriteFile(e.BootstrapKubeconfig, kubeconfig(third), 0o600); err != nil {
		t.Fatal(err)
	}
	if server, err := e.server(); err != nil || server.Host != third {
		t.Errorf("the operator's word does not count: %+v, %v", server, err)
	}
	if err := os.Remove(e.BootstrapKubeconfig); err != nil {
		t.Fatal(err)
	}
	if server, err := e.server(); err != nil || server.Host != second {
		t.Errorf("without a bootstrap kubeconfig the agent goes to %+v, %v", server, err)
	}
	if err := os.WriteFile(filepath.Join(e.StateDir, host.HomeFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.server(); err == nil {
		t.Error("a damaged file is ignored: the agent would go back")
	}
}
