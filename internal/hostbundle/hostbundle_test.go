package hostbundle

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/note"
)

const (
	older = "v1.35.4"
	newer = "v1.36.3"
)

func newKeys(t *testing.T) (note.Signer, PublicKeys) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParsePublicKeys([]byte("# of the test\n" + public + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return signer, keys
}

// runtimeProgram does not compress well, so that cutting its layer cuts its content.
var runtimeProgram = func() []byte {
	data := make([]byte, 20<<10)
	_, _ = rand.Read(data)
	return data
}()

// layoutOf two versions that share a component.
func layoutOf(t *testing.T, signer note.Signer) string {
	t.Helper()
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "layout")
	write := func(name string, data []byte) Source {
		if err := os.WriteFile(filepath.Join(in, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return Source{Path: "bin/" + name, From: filepath.Join(in, name), Mode: 0o755}
	}
	w, err := NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{newer, older} {
		shared, err := w.Component("runtime", "v2.0.0", []Source{write("containerd", runtimeProgram), write("ctr", []byte("ctr"))})
		if err != nil {
			t.Fatal(err)
		}
		own, err := w.Component("kubernetes", version, []Source{write("kubelet", []byte("kubelet "+version))})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Bundle(version, Contents{KubernetesVersion: version, Architecture: "amd64", Components: []Component{shared, own},
			Links: []Link{{Path: "/usr/local/bin/ctr", Component: "runtime", Target: "bin/ctr"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bundle opens the newer version.
func bundle(dir string, keys PublicKeys) (*Bundle, error) {
	d, err := OpenDirectory(dir)
	if err != nil {
		return nil, err
	}
	return d.Bundle(newer, "amd64", keys)
}

// unpackAll reads every component of a bundle into memory, and what else it says.
func unpackAll(b *Bundle) (map[string]string, error) {
	contents, err := json.Marshal(b.Contents)
	if err != nil {
		return nil, err
	}
	found := map[string]string{"contents": string(contents)}
	for _, c := range b.Components {
		err := b.Unpack(c, func(f File, content io.Reader) error {
			data, err := io.ReadAll(content)
			found[c.Name+"/"+f.Path] = string(data)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func blobs(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Versions(); !slices.Equal(got, []string{older, newer}) {
		t.Errorf("versions %q", got)
	}
	for _, version := range d.Versions() {
		b, err := d.Bundle(version, "amd64", keys)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpackAll(b)
		delete(got, "contents")
		want := map[string]string{"runtime/bin/containerd": string(runtimeProgram), "runtime/bin/ctr": "ctr", "kubernetes/bin/kubelet": "kubelet " + version}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: unpacked %q: %v", version, slices.Collect(maps.Keys(got)), err)
		}
	}
	// oci-layout, index.json; two indexes, manifests, configurations, signatures and notes; the
	// empty configuration of both signatures; three layers, one of them shared.
	if got := len(blobs(t, dir)); got != 2+2*5+1+3 {
		t.Errorf("%d files in the layout; are components shared? %q", got, slices.Sorted(maps.Keys(blobs(t, dir))))
	}
}

func TestEqualInputsGiveEqualBytes(t *testing.T) {
	signer, _ := newKeys(t)
	if one, two := blobs(t, layoutOf(t, signer)), blobs(t, layoutOf(t, signer)); !maps.EqualFunc(one, two, bytes.Equal) {
		t.Error("two layouts of the same inputs differ")
	}
}

// Whichever byte of the layout somebody changes: the bundle is refused, or it is still
// what was signed. A part of each file is tried; blobs are what matters.
func TestNoChangedByteIsTrusted(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	b, err := bundle(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	want, err := unpackAll(b)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for path, data := range blobs(t, dir) {
		for at := 0; at < len(data); at += max(1, len(data)/16) {
			changed := slices.Clone(data)
			changed[at] ^= 1
			if err := os.WriteFile(filepath.Join(dir, path), changed, 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := bundle(dir, keys)
			var got map[string]string
			if err == nil {
				got, err = unpackAll(b)
			}
			var known *Error
			switch {
			case err == nil && !maps.Equal(got, want):
				t.Fatalf("byte %d of %s was changed, and other content trusted", at, path)
			case err != nil && !errors.As(err, &known):
				t.Fatalf("byte %d of %s: want an Error that says why, got %v", at, path, err)
			case err != nil:
				refused++
			}
		}
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("no change was refused")
	}
}

func reason(err error) Reason {
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

func TestRefusals(t *testing.T) {
	signer, keys := newKeys(t)
	_, others := newKeys(t)
	for name, tt := range map[string]struct {
		version, architecture string
		keys                  PublicKeys
		spoil                 func(t *testing.T, index *ocispec.Index)
		want                  Reason
	}{
		"another key":          {keys: others, want: ReasonUntrusted},
		"no key":               {want: ReasonUntrusted},
		"no such version":      {version: "v1.34.0", keys: keys, want: ReasonNotFound},
		"another architecture": {architecture: "riscv64", keys: keys, want: ReasonWrongArchitecture},
		"no signature": {keys: keys, want: ReasonUnsigned, spoil: func(_ *testing.T, index *ocispec.Index) {
			index.Manifests = slices.DeleteFunc(index.Manifests, func(d ocispec.Descriptor) bool { return d.ArtifactType == signatureType })
		}},
		"an older version by the name of a newer": {keys: keys, want: ReasonUntrusted, spoil: func(_ *testing.T, index *ocispec.Index) {
			index.Manifests = slices.DeleteFunc(index.Manifests, func(d ocispec.Descriptor) bool { return d.Annotations[ocispec.AnnotationRefName] == newer })
			for i := range index.Manifests {
				if index.Manifests[i].ArtifactType == artifactType {
					index.Manifests[i].Annotations[ocispec.AnnotationRefName] = newer
				}
			}
		}},
		"an index that nobody signed": {keys: keys, want: ReasonUnsigned, spoil: func(_ *testing.T, index *ocispec.Index) {
			for i := range index.Manifests {
				if index.Manifests[i].ArtifactType == artifactType {
					index.Manifests[i].Digest = digest.FromString("something else")
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := layoutOf(t, signer)
			d, err := OpenDirectory(dir)
			if err != nil {
				t.Fatal(err)
			}
			if tt.spoil != nil {
				tt.spoil(t, &d.index)
			}
			if tt.version == "" {
				tt.version = newer
			}
			if tt.architecture == "" {
				tt.architecture = "amd64"
			}
			if _, err := d.Bundle(tt.version, tt.architecture, tt.keys); reason(err) != tt.want {
				t.Errorf("want %s, got %v", tt.want, err)
			}
		})
	}
}

func TestTruncatedLayer(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	b, err := bundle(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(dir, "blobs", "sha256", b.Components[0].Layer.Encoded())
	info, err := os.Stat(layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(layer, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	_, err = unpackAll(b)
	if reason(err) != ReasonCorrupt || !strings.Contains(err.Error(), "copy the bundle again") {
		t.Errorf("want the reason and the remedy, got %v", err)
	}
	if err := os.Remove(layer); err != nil {
		t.Fatal(err)
	}
	if _, err = unpackAll(b); reason(err) != ReasonCorrupt {
		t.Errorf("want %s for a layer that is not there, got %v", ReasonCorrupt, err)
	}
}

// A layer holds what the signed list of its files says, and nothing else.
func TestLayersAreWhatTheirListSays(t *testing.T) {
	signer, keys := newKeys(t)
	for name, spoil := range map[string]func(*Component){
		"another digest": func(c *Component) { c.Files[0].Digest = digest.FromString("something else") },
		"another size":   func(c *Component) { c.Files[0].Size++ },
		"another path":   func(c *Component) { c.Files[0].Path = "b" },
		"a file more":    func(c *Component) { c.Files = c.Files[:1] },
		"a file less":    func(c *Component) { c.Files = append(c.Files, File{Path: "b", Digest: c.Files[0].Digest}) },
	} {
		t.Run(name, func(t *testing.T) {
			in, dir := filepath.Join(t.TempDir(), "in"), t.TempDir()
			if err := os.WriteFile(in, []byte("program"), 0o600); err != nil {
				t.Fatal(err)
			}
			w, err := NewWriter(dir, signer)
			if err != nil {
				t.Fatal(err)
			}
			c, err := w.Component("a", "v1", []Source{{Path: "1", From: in}, {Path: "2", From: in}})
			if err != nil {
				t.Fatal(err)
			}
			spoil(&c)
			if err := errors.Join(w.Bundle(newer, Contents{KubernetesVersion: newer, Architecture: "amd64", Components: []Component{c}}), w.Close()); err != nil {
				t.Fatal(err)
			}
			b, err := bundle(dir, keys)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unpackAll(b); reason(err) != ReasonCorrupt {
				t.Errorf("want %s, got %v", ReasonCorrupt, err)
			}
		})
	}
}

// Whoever has a key may still not reach beyond what a bundle is for.
func TestValidate(t *testing.T) {
	valid := func() Contents {
		return Contents{KubernetesVersion: newer, Architecture: "amd64",
			Components: []Component{{Name: "a", Version: "v1", Files: []File{{Path: "b", Digest: digest.FromString("")}}}}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Contents){
		"version":                 func(c *Contents) { c.KubernetesVersion = "v1.36" },
		"version with a path":     func(c *Contents) { c.KubernetesVersion = "../v1.36.3" },
		"component of that name":  func(c *Contents) { c.Components = append(c.Components, c.Components[0]) },
		"component with a path":   func(c *Contents) { c.Components[0].Name = "../a" },
		"file out of it":          func(c *Contents) { c.Components[0].Files[0].Path = "../b" },
		"absolute file":           func(c *Contents) { c.Components[0].Files[0].Path = "/b" },
		"file twice":              func(c *Contents) { c.Components[0].Files = append(c.Components[0].Files, c.Components[0].Files[0]) },
		"setuid":                  func(c *Contents) { c.Components[0].Files[0].Mode = 0o4755 },
		"no digest":               func(c *Contents) { c.Components[0].Files[0].Digest = "" },
		"directory of the host":   func(c *Contents) { c.Directories = []string{"/var/lib/dpkg"} },
		"directory above":         func(c *Contents) { c.Directories = []string{"/var/lib/slipway/../dpkg"} },
		"state as a whole":        func(c *Contents) { c.Directories = []string{"/var/lib/slipway/"} },
		"shared directory":        func(c *Contents) { c.SharedDirectories = []string{"/var/spool"} },
		"file of the host":        func(c *Contents) { c.Files = []HostFile{{Path: "/bin/sh"}} },
		"link of the host":        func(c *Contents) { c.Links = []Link{{Path: "/usr/bin/sh", Component: "a", Target: "b"}} },
		"link out of a component": func(c *Contents) { c.Links = []Link{{Path: "/usr/local/bin/sh", Component: "a", Target: "../b"}} },
		"link to no component":    func(c *Contents) { c.Links = []Link{{Path: "/usr/local/bin/sh", Component: "c", Target: "b"}} },
		"module with an option":   func(c *Contents) { c.Modules = []string{"-r overlay"} },
		"unit that is an option":  func(c *Contents) { c.Units = []string{"--root=/ x.service"} },
		"path twice": func(c *Contents) {
			c.Files = []HostFile{{Path: "/etc/a"}, {Path: "/etc/a"}}
		},
	} {
		c := valid()
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "test+0+AAAA", "PRIVATE+KEY+test+b1f7ab8f+AUP"} {
		if _, err := ParsePublicKeys([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
