package kube

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secrets is an etcd that has Secrets or not.
type secrets bool

func (s secrets) Any(_ context.Context, prefix string) (bool, error) {
	if prefix != "/registry/secrets/" {
		return false, errors.New("looked for " + prefix)
	}
	return bool(s), nil
}

// The key is made at the first start and kept at others. None is made while Secrets are stored,
// and no message quotes it.
func TestKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "encryption")
	file := NewKey(dir, secrets(false)).ConfigFile()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(NewKey(dir, secrets(false)).Init(t.Context()))
	made, err := os.ReadFile(file)
	must(err)
	must(NewKey(dir, secrets(true)).Init(t.Context()))
	if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, made) {
		t.Errorf("the second start changed the key: %v", err)
	}
	if bytes.Contains(made, []byte("identity")) {
		t.Error("Secrets that are not encrypted would be read")
	}

	must(os.Chmod(file, 0o644))
	if err := NewKey(dir, secrets(true)).Init(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 600 "+file) {
		t.Errorf("with a key that all can read: %v", err)
	}
	must(os.WriteFile(file, []byte("confidential: [key\n"), 0o600))
	must(os.Chmod(file, 0o600))
	if err := NewKey(dir, secrets(true)).Init(t.Context()); err == nil || strings.Contains(err.Error(), "confidential") {
		t.Errorf("with a key that cannot be read: %v", err)
	}
	must(os.Remove(file))
	var missing *MissingKeyError
	if err := NewKey(dir, secrets(true)).Init(t.Context()); !errors.As(err, &missing) || missing.File != file {
		t.Errorf("without the key: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a new key was made while Secrets are stored: %v", err)
	}
}
