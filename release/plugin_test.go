package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// readPlugin reads the manifest as krew does: no field that it does not know.
func readPlugin(t *testing.T, r *release) krewPlugin {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.assets(), "slipway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(content, &plugin); err != nil {
		t.Fatal(err)
	}
	return plugin
}

// install does what krew does with the archive of a platform: it holds the file that the
// URI names against the digest, unpacks it, and returns the program.
func install(t *testing.T, r *release, on krewPlatform) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.assets(), path.Base(on.URI)))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != on.SHA256 {
		t.Errorf("%s has SHA-256 %s, the manifest says %s", on.URI, got, on.SHA256)
	}
	dir := t.TempDir()
	f, err := os.Open(filepath.Join(r.assets(), path.Base(on.URI)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, "archive.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	if _, err := io.Copy(archive, plain); err != nil {
		t.Fatal(err)
	}
	modes := unpack(t, archive.Name(), dir)
	if modes[on.Bin]&0o111 != 0o111 {
		t.Errorf("%s in %s has mode %o, and nobody can run it", on.Bin, on.URI, modes[on.Bin])
	}
	if license, err := os.ReadFile(filepath.Join(dir, "LICENSE")); err != nil || !strings.Contains(string(license), "Apache License") {
		t.Errorf("the archive lacks the licence: %v", err)
	}
	return filepath.Join(dir, on.Bin)
}

// The manifest is what krew's validation accepts, and names what is there.
func TestPluginManifest(t *testing.T) {
	r := &release{source: "..", out: t.TempDir(), version: "v0.1.0", architectures: allArchitectures}
	if err := os.MkdirAll(r.assets(), 0o755); err != nil {
		t.Fatal(err)
	}
	platforms := []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
	for _, on := range platforms {
		if err := os.WriteFile(r.binary("kubectl-slipway", on), []byte(on.system+on.arch), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writePlugin(t.Context()); err != nil {
		t.Fatal(err)
	}
	plugin := readPlugin(t, r)
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata["name"] != "slipway" || plugin.Spec.Version != "v0.1.0" {
		t.Errorf("the manifest is of %+v", plugin)
	}
	// krew's index wants no more than 50 characters, and no line breaks.
	if short := plugin.Spec.ShortDescription; short == "" || len(short) > 50 || strings.ContainsAny(short, "\r\n") {
		t.Errorf("short description %q", short)
	}
	var found []platform
	digest := regexp.MustCompile(`^[a-f0-9]{64}$`)
	for _, on := range plugin.Spec.Platforms {
		labels := on.Selector.MatchLabels
		here := platform{labels["os"], labels["arch"]}
		if found = append(found, here); len(labels) != 2 || !digest.MatchString(on.SHA256) {
			t.Errorf("platform %+v", on)
		}
		if want := "https://github.com/slipway-dev/slipway/releases/download/v0.1.0/kubectl-slipway-" + here.system + "-" + here.arch + ".tar.gz"; on.URI != want {
			t.Errorf("%+v comes from %s, want %s", here, on.URI, want)
		}
		if program, err := os.ReadFile(install(t, r, on)); err != nil || string(program) != here.system+here.arch {
			t.Errorf("%+v gets the program %q: %v", here, program, err)
		}
	}
	if !slices.Equal(found, platforms) {
		t.Errorf("the plugin is for %v, want %v", found, platforms)
	}
}

// checkPlugin installs the plugin of the platform at hand and runs it.
func checkPlugin(t *testing.T, r *release) {
	plugin := readPlugin(t, r)
	for _, on := range plugin.Spec.Platforms {
		program := install(t, r, on)
		if on.Selector.MatchLabels["os"] != runtime.GOOS || on.Selector.MatchLabels["arch"] != runtime.GOARCH {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), r.version) {
			t.Errorf("%s version: %v\n%s", program, err, out)
		}
		return
	}
	t.Errorf("the plugin is not for %s/%s", runtime.GOOS, runtime.GOARCH)
}
