package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contentsOf lists a gzipped archive as `tar -tv` does: mode and name, and where links point.
func contentsOf(t *testing.T, archive string) []string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for tr := tar.NewReader(plain); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 1700000000 {
			t.Errorf("%s belongs to %d:%d and is of %s", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		line := header.FileInfo().Mode().String() + " " + header.Name
		if header.Linkname != "" {
			line += " -> " + header.Linkname
		}
		found = append(found, line)
	}
}

// A plane finds its programs beside itself, agents of other architectures by their names, and
// the node bundle where its archive is unpacked at the same place.
func TestPlaneArchives(t *testing.T) {
	bundle := t.TempDir()
	write := func(dir, name, content string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(bundle, "bundle.json", `{"digest":"sha256:a","architecture":"arm64"}`, 0o644)
	write(bundle, "store.digest", "sha256:a\n", 0o644)
	write(bundle, "kubernetes/v1.36.3/hyperkube", "program", 0o755)
	if err := os.Symlink("hyperkube", filepath.Join(bundle, "kubernetes/v1.36.3/kubelet")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(bundle, "store/ingest"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "1700000000", allArchitectures)
	if err != nil {
		t.Fatal(err)
	}
	r.nodeBundle, r.programs = bundle, t.TempDir()
	for _, name := range planeParts {
		for _, arch := range allArchitectures {
			path := r.binary(name, platform{"linux", arch})
			write(filepath.Dir(path), filepath.Base(path), name+arch, 0o755)
		}
	}
	if err := errors.Join(r.writeArchives(t.Context()), r.writeNodeBundle(t.Context())); err != nil {
		t.Fatal(err)
	}
	for archive, want := range map[string][]string{
		"slipway-v0.1.0-linux-arm64.tar.gz": {
			"-rwxr-xr-x slipway/slipway", "-rwxr-xr-x slipway/slipway-sandbox", "-rwxr-xr-x slipway/slipway-agent", "-rwxr-xr-x slipway/slipway-lifecycle",
			"-rwxr-xr-x slipway/slipway-agent-linux-amd64", "-rw-r--r-- slipway/LICENSE",
		},
		"slipway-node-bundle-v0.1.0-linux-arm64.tar.gz": {
			"drwxr-xr-x slipway/bundle/", "-rw-r--r-- slipway/bundle/bundle.json", "drwxr-xr-x slipway/bundle/kubernetes/",
			"drwxr-xr-x slipway/bundle/kubernetes/v1.36.3/", "-rwxr-xr-x slipway/bundle/kubernetes/v1.36.3/hyperkube",
			"Lrwxrwxrwx slipway/bundle/kubernetes/v1.36.3/kubelet -> hyperkube", "drwx------ slipway/bundle/store/", "drwx------ slipway/bundle/store/ingest/",
			"-rw-r--r-- slipway/bundle/store.digest",
		},
	} {
		if got := contentsOf(t, filepath.Join(r.assets(), archive)); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", archive, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	// What was imported for an earlier build, or as an ordinary user never.
	for _, tc := range []struct{ digest, want string }{{"sha256:b\n", "earlier build"}, {"", "store.digest: no such file"}} {
		if tc.digest == "" {
			if err := os.Remove(filepath.Join(bundle, "store.digest")); err != nil {
				t.Fatal(err)
			}
		} else {
			write(bundle, "store.digest", tc.digest, 0o644)
		}
		if err := r.writeNodeBundle(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "make bundle") {
			t.Errorf("images of %q: %v", tc.digest, err)
		}
	}
}
