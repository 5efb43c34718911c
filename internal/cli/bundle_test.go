package cli

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// hostBundles writes a layout with two versions and an agent, and the public key beside it.
func hostBundles(t *testing.T) (dir, publicKey string) {
	t.Helper()
	in := t.TempDir()
	dir, publicKey = filepath.Join(in, "layout"), filepath.Join(in, "hostbundle.pub")
	signer, _, public := bundlesource.NewKeys(t)
	program := filepath.Join(in, "runc")
	if err := errors.Join(os.WriteFile(program, []byte("runc"), 0o600), os.WriteFile(publicKey, []byte(public), 0o600)); err != nil {
		t.Fatal(err)
	}
	w, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Component("runc", "v1.5.2", []hostbundle.Source{{Path: "runc", From: program, Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1.35.4", "v1.36.3"} {
		if err := w.Bundle(version, hostbundle.Contents{KubernetesVersion: version, Architecture: "arm64", Components: []hostbundle.Component{c}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(recipe.Agent(w, "v0.2.0", map[string]string{"arm64": program}), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, publicKey
}

// pack makes the archive of a release.
func pack(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "host-bundle.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBundles(t *testing.T) {
	dir, key := hostBundles(t)
	store := filepath.Join(t.TempDir(), "volume", "bundles")
	bundle := func(args ...string) (string, error) { return run(t, append([]string{"bundle"}, args...)...) }
	if out, err := bundle("list", "--dir", store, "-o", "json"); err != nil || out != "[]\n" {
		t.Errorf("list of nothing: %q, %v", out, err)
	}
	out, err := bundle("load", pack(t, dir), "--dir", store, "--public-key", key, "--kubernetes-version", "v1.36.3", "-o", "name")
	if err != nil || out != "hostbundle/v1.36.3\n" {
		t.Errorf("load: %q, %v", out, err)
	}
	if out, err := bundle("load", dir, "--dir", store); err != nil || strings.Count(out, "arm64") != 3 || !strings.Contains(out, "slipway-agent-v0.2.0  slipway-agent v0.2.0") {
		t.Errorf("load: %q, %v", out, err)
	}
	out, err = bundle("list", "--dir", store, "-o", "json")
	var rows []bundleRow
	if err = errors.Join(err, json.Unmarshal([]byte(out), &rows)); err != nil || len(rows) != 3 || rows[2].AgentVersion != "v0.2.0" || rows[2].KubernetesVersion != "" || rows[1].KubernetesVersion != "v1.36.3" || rows[1].Architectures[0] != "arm64" || rows[1].Size == 0 || !strings.HasPrefix(rows[1].Digest, "sha256:") {
		t.Errorf("list: %q, %v", out, err)
	}
	if out, err := bundle("list", "--dir", store, "-o", "wide"); err != nil || !strings.Contains(out, rows[0].Digest) {
		t.Errorf("list: %q, %v", out, err)
	}
	if out, err := run(t, "__complete", "bundle", "remove", "--dir", store, ""); err != nil || !strings.Contains(out, "v1.35.4") {
		t.Errorf("completion: %q, %v", out, err)
	}
	if out, err := bundle("remove", "v1.35.4", "slipway-agent-v0.2.0", "--dir", store); err != nil || out != "hostbundle/slipway-agent-v0.2.0 removed\nhostbundle/v1.35.4 removed\n" {
		t.Errorf("remove: %q, %v", out, err)
	}
	if out, err := bundle("load", dir, "--dir", store, "--agent-version", "v0.2.0", "-o", "name"); err != nil || out != "hostbundle/slipway-agent-v0.2.0\n" {
		t.Errorf("load: %q, %v", out, err)
	}
	if _, err := bundle("remove", "slipway-agent-v0.2.0", "--dir", store); err != nil {
		t.Errorf("remove: %v", err)
	}
	if out, err := bundle("list", "--dir", store, "-o", "name"); err != nil || out != "hostbundle/v1.36.3\n" {
		t.Errorf("list: %q, %v", out, err)
	}
	// The archive was taken out beside the store, and is gone.
	if left, err := os.ReadDir(filepath.Dir(store)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestBundlesRefuse(t *testing.T) {
	dir, key := hostBundles(t)
	_, otherKey := hostBundles(t)
	store := filepath.Join(t.TempDir(), "bundles")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no directory":          {[]string{"load", dir}, "--dir: want the directory"},
		"nothing there":         {[]string{"load", filepath.Join(dir, "x"), "--dir", store}, "no such file"},
		"no layout":             {[]string{"load", t.TempDir(), "--dir", store}, "is no OCI image layout"},
		"no archive":            {[]string{"load", key, "--dir", store}, "is no tar archive of host bundles"},
		"another key":           {[]string{"load", dir, "--dir", store, "--public-key", otherKey}, "no signature"},
		"no key":                {[]string{"load", dir, "--dir", store, "--public-key", filepath.Join(dir, "index.json")}, "want a public key in each line"},
		"another version":       {[]string{"load", dir, "--dir", store, "--kubernetes-version", "v1.2.3"}, "it has: v1.35.4, v1.36.3, slipway-agent-v0.2.0"},
		"another agent":         {[]string{"load", dir, "--dir", store, "--agent-version", "v0.3.0"}, "has no bundle of slipway-agent v0.3.0"},
		"removed and not there": {[]string{"remove", "v1.2.3", "--dir", store}, "no bundle of Kubernetes v1.2.3 was loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, append([]string{"bundle"}, tt.args...)...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}
