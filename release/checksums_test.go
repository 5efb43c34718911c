package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a release holds is signed by slipway-bundle, and verified by it with the public key.
func TestSignature(t *testing.T) {
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "1700000000", allArchitectures)
	if err != nil {
		t.Fatal(err)
	}
	keys := t.TempDir()
	r.key = filepath.Join(keys, "release.key")
	public := filepath.Join(keys, "release.pub")
	if err := r.bundleTool(t.Context(), "keygen", "--name", "example.com", "--private-key", r.key, "--public-key", public); err != nil {
		t.Fatal(err)
	}
	for _, dir := range r.dirs() {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte(dir), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.writeChecksums(t.Context()), r.sign(t.Context())); err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		return r.bundleTool(t.Context(), "verify", "--public-key", public, "--version", r.version, "--release", r.out)
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(r.assets(), "file"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := verify(); err == nil || !strings.Contains(err.Error(), "assets/file (differs)") {
		t.Errorf("a file was changed: %v", err)
	}
	// The signature of an earlier release is not left for one that is not signed.
	r.key = ""
	if err := r.sign(t.Context()); err != nil {
		t.Error(err)
	}
	if err := verify(); err == nil || !strings.Contains(err.Error(), "SHA256SUMS.note") {
		t.Errorf("nothing is signed: %v", err)
	}
	if last := steps[len(steps)-1].name; last != "signature" {
		t.Errorf("the last step of a release is %s", last)
	}
}
