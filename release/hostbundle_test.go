package main

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What was signed goes along byte for byte, or the release fails.
func TestHostBundle(t *testing.T) {
	bundle := t.TempDir()
	want := map[string]string{"oci-layout": "{}", "index.json": "[]", "blobs/sha256/0a": "layer"}
	for name, content := range want {
		path := filepath.Join(bundle, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{out: t.TempDir(), hostBundle: bundle, time: time.Unix(1700000000, 0)}
	if err := errors.Join(os.MkdirAll(r.assets(), 0o755), r.writeHostBundle(t.Context())); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(r.assets(), "host-bundle.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]string{}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(content)
	}
	if !maps.Equal(got, want) {
		t.Errorf("packed %q, want %q", got, want)
	}
	r.hostBundle = t.TempDir()
	if err := r.writeHostBundle(t.Context()); err == nil {
		t.Error("no error for a directory without a layout")
	}
}
