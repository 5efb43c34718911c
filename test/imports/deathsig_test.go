package imports

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThreadsOutliveTheirChildren checks that whoever has the kernel end a child with its parent keeps
// the thread that started it: to the kernel the parent is that thread, and the Go runtime ends threads
// while the process goes on (https://go.dev/issue/27505).
func TestThreadsOutliveTheirChildren(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "bin" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") && path != "../..":
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Base(path) == "deathsig_test.go":
			return nil
		}
		source, err := os.ReadFile(path)
		if bytes.Contains(source, []byte("Pdeathsig:")) && !bytes.Contains(source, []byte("runtime.LockOSThread()")) {
			t.Errorf("%s sets Pdeathsig without runtime.LockOSThread: the child ends at random. Keep the thread until the child ended, or, in a test, let the child read from a pipe",
				strings.TrimPrefix(filepath.ToSlash(path), "../../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
