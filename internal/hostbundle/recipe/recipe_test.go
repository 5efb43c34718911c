package recipe

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

// nodeBundleOf two versions, each program with its own path as content.
func nodeBundleOf(t *testing.T) (bundle, images string) {
	t.Helper()
	bundle, images = t.TempDir(), t.TempDir()
	write := func(path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := nodeBundle{Architecture: "amd64", Images: map[string]string{"echo": "slipway.dev/echo:v1", "flannel": "slipway.dev/flannel:v0.28.4"}}
	b.Versions.Containerd, b.Versions.Runc, b.Versions.CNIPlugins = "v2.4.2", "v1.5.2", "v1.9.1"
	for _, program := range []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "bin/runc", "cni/bridge", "cni/flannel", "cni/host-local", "cni/loopback", "cni/portmap", "cni/ptp"} {
		write(filepath.Join(bundle, program))
	}
	for _, version := range []string{"v1.35.4", "v1.36.3"} {
		r := release{Version: version, Images: map[string]string{
			"kube-apiserver": "registry.k8s.io/kube-apiserver:" + version, "pause": "registry.k8s.io/pause:3.10.2", "etcd": "registry.k8s.io/etcd:3.6." + version[3:5]}}
		b.Kubernetes = append(b.Kubernetes, r)
		write(filepath.Join(bundle, "kubernetes", version, "hyperkube"))
		for _, a := range b.archives(r) {
			write(filepath.Join(images, a.file()))
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "bundle.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return bundle, images
}

func contents(t *testing.T) map[string]*hostbundle.Bundle {
	t.Helper()
	signer, keys, _ := bundlesource.NewKeys(t)
	dir := t.TempDir()
	w, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	nodeBundle, images := nodeBundleOf(t)
	versions, err := Build(w, nodeBundle, images)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*hostbundle.Bundle{}
	for _, version := range versions {
		if found[version], err = d.Bundle(version, "amd64", keys); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func layerOf(b *hostbundle.Bundle, name string) string {
	at := slices.IndexFunc(b.Components, func(c hostbundle.Component) bool { return c.Name == name })
	if at < 0 {
		return ""
	}
	return b.Components[at].Layer.String()
}

func TestVersionsShareWhatIsTheSame(t *testing.T) {
	bundles := contents(t)
	older, newer := bundles["v1.35.4"], bundles["v1.36.3"]
	for _, name := range []string{"containerd", "runc", "cni", "image-pause", "image-flannel"} {
		if layerOf(older, name) != layerOf(newer, name) || layerOf(older, name) == "" {
			t.Errorf("%s is not shared", name)
		}
	}
	for _, name := range []string{"kubernetes", "image-kubernetes", "image-etcd"} {
		if layerOf(older, name) == layerOf(newer, name) {
			t.Errorf("%s of two versions is the same, or not there", name)
		}
	}
	if layerOf(newer, "image-echo") != "" {
		t.Error("the image of tests is in the bundle")
	}
}

// What units, the configuration and links name must be what the bundle brings: nothing
// else checks that before a host boots.
func TestFilesNameWhatTheBundleBrings(t *testing.T) {
	for version, b := range contents(t) {
		brought := map[string]bool{}
		for _, l := range b.Links {
			brought[l.Path] = true
			if l.Component == "" && l.Target != "../"+filepath.Base(l.Path) {
				t.Errorf("%s: %s leads to %s, not to its unit", version, l.Path, l.Target)
			}
		}
		for _, f := range b.Files {
			brought[f.Path] = true
			if strings.Contains(f.Content, "@") {
				t.Errorf("%s: %s has a placeholder left:\n%s", version, f.Path, f.Content)
			}
		}
		// the agent links the kubelet that it chose
		brought["/usr/local/bin/kubelet"] = true
		named := regexp.MustCompile(`/(?:usr/local/bin|etc/slipway|opt/slipway)/[\w./-]*\w`)
		for _, f := range b.Files {
			for _, path := range named.FindAllString(f.Content, -1) {
				if !brought[path] && path != "/opt/slipway/images" {
					t.Errorf("%s: %s names %s, which the bundle does not bring", version, f.Path, path)
				}
			}
		}
		for _, unit := range b.Units {
			if !brought["/etc/systemd/system/"+unit] || !brought["/etc/systemd/system/multi-user.target.wants/"+unit] {
				t.Errorf("%s: %s is started, but not there or not enabled", version, unit)
			}
		}
	}
}

// Each architecture has its own program, in one bundle of the version.
func TestAgent(t *testing.T) {
	signer, keys, _ := bundlesource.NewKeys(t)
	dir, programs := filepath.Join(t.TempDir(), "layout"), map[string]string{}
	for _, architecture := range []string{"amd64", "arm64"} {
		programs[architecture] = filepath.Join(t.TempDir(), architecture)
		if err := os.WriteFile(programs[architecture], []byte("for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Agent(w, "v0.9.1-rc.1", programs), w.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := hostbundle.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	for architecture := range programs {
		b, err := d.Bundle(hostbundle.AgentTag("v0.9.1-rc.1"), architecture, keys)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Unpack(b.Components[0], func(f hostbundle.File, content io.Reader) error {
			data, err := io.ReadAll(content)
			if f.Path != "slipway-agent" || f.Mode != 0o755 || string(data) != "for "+architecture {
				t.Errorf("%+v: %q", f, data)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := Agent(w, "(devel)", programs); err == nil || !strings.Contains(err.Error(), "want a version such as") {
		t.Errorf("err = %v", err)
	}
}
