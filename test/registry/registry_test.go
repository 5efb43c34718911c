package registry

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

const (
	older, newer = "v1.36.90", "v1.36.91"
	repository   = "platform/host-bundles"
)

// host is the root of a machine that installs with the agent.
type host struct {
	agent, root string
	// of the registry and of the bundles
	flags []string
}

func newHost(t *testing.T, bin string, flags ...string) *host {
	t.Helper()
	h := &host{agent: filepath.Join(bin, "slipway-agent"), root: t.TempDir(), flags: flags}
	if err := os.MkdirAll(filepath.Join(h.root, "var", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) install(args ...string) (string, error) {
	out, err := exec.Command(h.agent, append(append([]string{"software", "install", "--root", h.root}, h.flags...), args...)...).CombinedOutput()
	return string(out), err
}

func (h *host) kubelet(t *testing.T, version string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(h.root, "opt", "slipway", "kubernetes", version, "kubelet"))
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// Hosts fetch what was pushed into a registry by a tool that knows OCI alone: a version, then
// the next one, of which they fetch only what they lack. The registry has no referrers API, so
// signatures are found by their tags.
func TestHostBundles(t *testing.T) {
	level.Deep(t)
	bin := os.Getenv("SLIPWAY_BIN")
	if _, err := os.Stat(Program(bin)); err != nil || os.Geteuid() != 0 {
		rights.Skip(t, "needs root and a registry; run `make build registry`, and set SLIPWAY_BIN to the folder of programs")
	}
	layout, key, common := bundles(t)
	port := shared.FreePort(t)
	r := New(t, bin, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	r.Serve(t)
	for _, tag := range []string{older, newer} {
		if err := r.Push(t.Context(), layout, repository, tag); err != nil {
			t.Fatal(err)
		}
	}
	unsigned := bare(t, layout)
	if err := r.Push(t.Context(), unsigned, "unsigned", newer); err != nil {
		t.Fatal(err)
	}
	source := func(repository string) string { return "oci://" + r.Address + "/" + repository }
	trusting := []string{"--public-key", key, "--ca-file", r.CAFile, "--registry-config", r.ConfigFile}

	h := newHost(t, bin, append(trusting, "--from", source(repository))...)
	if out, err := h.install("--kubernetes-version", older); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A mirror that is down is passed over; without a version the newest is installed.
	gone := shared.FreePort(t)
	h.flags = append([]string{"--from", fmt.Sprintf("oci://127.0.0.1:%d/%s", gone, repository)}, h.flags...)
	if out, err := h.install(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, version := range []string{older, newer} {
		if got := h.kubelet(t, version); got != "kubelet "+version {
			t.Errorf("the kubelet of %s is %q", version, got)
		}
	}
	if n := strings.Count(r.Log(t), "GET /v2/"+repository+"/blobs/"+common+" "); n != 1 {
		t.Errorf("the component that both versions have was asked for %d times, want once", n)
	}

	foreign := New(t, bin, r.Address)
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"without credentials":            {[]string{"--public-key", key, "--ca-file", r.CAFile, "--from", source(repository)}, "name a file with credentials by --registry-config"},
		"with another password":          {[]string{"--public-key", key, "--ca-file", r.CAFile, "--registry-config", foreign.ConfigFile, "--from", source(repository)}, "it may not be read"},
		"with another CA":                {[]string{"--public-key", key, "--ca-file", foreign.CAFile, "--registry-config", r.ConfigFile, "--from", source(repository)}, "by no CA that is trusted here"},
		"a repository that is not there": {append(trusting, "--from", source("platform/other")), "has no bundle of Kubernetes " + newer + "; it has those of Kubernetes: none"},
		"a bundle without its signature": {append(trusting, "--from", source("unsigned")), "is not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, bin, c.flags...)
			out, err := h.install("--kubernetes-version", newer)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("want %q: %v\n%s", c.want, err, out)
			}
			if _, err := os.Stat(filepath.Join(h.root, "opt")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was installed (%v)", err)
			}
		})
	}
}

// bundles writes a layout with two versions, and tells the digest of the component that both
// have.
func bundles(t *testing.T) (layout, publicKey, common string) {
	t.Helper()
	dir := t.TempDir()
	layout, publicKey = filepath.Join(dir, "layout"), filepath.Join(dir, "key.pub")
	signer, _, public := bundlesource.NewKeys(t)
	if err := os.WriteFile(publicKey, []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := hostbundle.NewWriter(layout, signer)
	if err != nil {
		t.Fatal(err)
	}
	component := func(name, version, content string) hostbundle.Component {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		c, err := w.Component(name, version, []hostbundle.Source{{Path: name, From: file, Mode: 0o755}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// more than a document of a bundle may have
	filling := make([]byte, 1<<20)
	_, _ = rand.Read(filling)
	runc := component("runc", "v1.4.0", string(filling))
	for _, version := range []string{older, newer} {
		kubernetes := component("kubelet", version, "kubelet "+version)
		if err := w.Bundle(version, hostbundle.Contents{
			KubernetesVersion: version, Architecture: runtime.GOARCH, Components: []hostbundle.Component{kubernetes, runc},
			Links: []hostbundle.Link{{Path: "/opt/slipway/kubernetes/" + version + "/kubelet", Component: "kubelet", Target: "kubelet"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layout, publicKey, string(runc.Layer)
}

// bare copies a layout without what refers to its bundles.
func bare(t *testing.T, layout string) string {
	t.Helper()
	from, err := oci.NewFromFS(t.Context(), os.DirFS(layout))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	to, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := oras.Copy(t.Context(), from, newer, to, newer, oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	return dir
}
