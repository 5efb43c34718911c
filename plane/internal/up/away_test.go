package up

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/host"
)

func TestHomeOf(t *testing.T) {
	dir := t.TempDir()
	if server, err := homeOf(dir); server != "" || err != nil {
		t.Errorf("a host that never moved is at %q (%v)", server, err)
	}
	path := filepath.Join(dir, agentState, host.HomeFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := join.BootstrapKubeconfig("https://10.88.0.2:6443", []byte("CA"), "a.b")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(host.Home{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{string(data): "https://10.88.0.2:6443", "{": "", `{"kubeconfig":"eA=="}`: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if server, err := homeOf(dir); server != want || (err == nil) != (want != "") {
			t.Errorf("%s: at %q (%v), want %q", content, server, err, want)
		}
	}
}
