package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"a long first version", "second"} {
		if err := Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Fatalf("file is %q: %v", got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode is %v: %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("left in the directory: %v, %v", entries, err)
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	// A directory in the way makes the rename fail after the temporary file was written.
	path := filepath.Join(dir, "f")
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); err == nil {
		t.Fatal("no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("left in the directory: %v, %v", entries, err)
	}
	if err := Write(filepath.Join(dir, "none", "f"), nil, 0o600); err == nil {
		t.Fatal("no error for a directory that does not exist")
	}
}

// A link that cannot take the place of a directory leaves nothing.
func TestFailedLinkLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "full/deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Link("target", filepath.Join(dir, "full")); err == nil {
		t.Error("no error")
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) != 1 {
		t.Errorf("left in the directory: %v, %v", found, err)
	}
}

// Nothing is below a file, and to remove it is no error.
func TestRemoveBelowAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(path, "a"), filepath.Join(path, "a", "b")} {
		if err := errors.Join(Remove(path), RemoveAll(path), RemoveIn("", path)); err != nil {
			t.Error(err)
		}
	}
}

// A user who puts another directory in the place of the one that root has just made does not get it.
func TestOwnGivesAwayEmptyDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "backup/deep"), 0o700), os.Mkdir(filepath.Join(dir, "new"), 0o700)); err != nil {
		t.Fatal(err)
	}
	err := WithDir("", dir, func(d *Dir) error {
		if err := d.own("new", 0o755, Keep, Keep); err != nil {
			t.Error(err)
		}
		return d.own("backup", 0o755, Keep, Keep)
	})
	if !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "backup")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v: %v", info, err)
	}
}
