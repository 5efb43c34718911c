package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
	"github.com/slipway-dev/slipway/test/live"
)

// bundleVersion is one that no local host has.
const bundleVersion = "v1.34.99"

// fetched has the host on the other machine install the version that was loaded into the plane
// from there, with the certificate of its agent.
func fetched(t *testing.T, run func(...string) string, agent func(...string) *exec.Cmd, config, key string) {
	t.Helper()
	if out := run("bundle", "list", "-o", "name"); !strings.HasPrefix(out, "hostbundle/"+bundleVersion+"\nhostbundle/slipway-agent-v") {
		t.Errorf("bundles of the plane: %q", out)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "var", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	install := func() (string, error) {
		out, err := agent("software", "install", "--from", "management", "--config", config, "--public-key", key, "--root", root).CombinedOutput()
		return string(out), err
	}
	poll.Until(t, "it installs from the plane", func() error {
		out, err := install()
		if err != nil && !strings.Contains(out, "serves no host bundles to this host") {
			t.Fatalf("install from the plane: %v\n%s", err, out)
		}
		return err
	})
	if got, err := os.ReadFile(filepath.Join(root, "opt", "slipway", "kubernetes", bundleVersion, "kubelet")); err != nil || string(got) != "a kubelet" {
		t.Errorf("the kubelet is %q: %v", got, err)
	}
	run("bundle", "remove", bundleVersion)
}

// hostBundle writes one that holds next to nothing, and the agent of the plane.
func hostBundle(t *testing.T, p *plane) (layout, publicKey string) {
	t.Helper()
	dir := t.TempDir()
	layout, publicKey = filepath.Join(dir, "layout"), filepath.Join(dir, "key.pub")
	signer, _, public := bundlesource.NewKeys(t)
	program := filepath.Join(dir, "hyperkube")
	if err := errors.Join(os.WriteFile(publicKey, []byte(public), 0o600), os.WriteFile(program, []byte("a kubelet"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w, err := hostbundle.NewWriter(layout, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Component("kubernetes", bundleVersion, []hostbundle.Source{{Path: "hyperkube", From: program, Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(w.Bundle(bundleVersion, hostbundle.Contents{KubernetesVersion: bundleVersion, Architecture: runtime.GOARCH, Components: []hostbundle.Component{c},
		Links: []hostbundle.Link{{Path: "/opt/slipway/kubernetes/" + bundleVersion + "/kubelet", Component: "kubernetes", Target: "hyperkube"}}}),
		recipe.Agent(w, live.Version(t, filepath.Join(p.bin, "slipway-agent")), map[string]string{runtime.GOARCH: filepath.Join(p.bin, "slipway-agent")}), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return layout, publicKey
}
