package shared

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A program is linked once, however many tests ask for it, and again once somebody has
// changed it.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program, skipped by -short")
	}
	const small = "github.com/slipway-dev/slipway/test/failures"
	linked := func() os.FileInfo {
		t.Helper()
		path, err := Program(t.Context(), small)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), path, os.DevNull).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", path, err, out)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		// while it is open, no other file is taken for it
		t.Cleanup(func() { _ = file.Close() })
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := linked()
	if !os.SameFile(first, linked()) {
		t.Error("a second test links it once more")
	}
	path, err := Program(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, other, 0o700)); err != nil {
		t.Fatal(err)
	}
	if again := linked(); again.Size() != first.Size() {
		t.Errorf("a program of other sources stays: %d bytes, want %d", again.Size(), first.Size())
	}
}

// The work tree is found from any folder of it, and from nowhere else.
func TestProgramOfNoWorkTree(t *testing.T) {
	t.Chdir(t.TempDir())
	if path, err := Program(t.Context(), "example.com/main"); err == nil || !strings.Contains(err.Error(), "run it in the repository") {
		t.Errorf("%q, %v", path, err)
	}
}
