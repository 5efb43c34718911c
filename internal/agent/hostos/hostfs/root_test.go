package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAt(t *testing.T) {
	for dir, want := range map[string]string{
		"": "/etc", "/": "/etc", "//": "/etc", "/.": "/etc", "/mnt/..": "/etc",
		"/mnt": "/mnt/etc", "/mnt/": "/mnt/etc", "/mnt//": "/mnt/etc", "/mnt/./disk": "/mnt/disk/etc",
	} {
		root := At(dir)
		if got := root.Path("/etc"); got != want {
			t.Errorf("/etc below %q is %q, want %q", dir, got, want)
		}
		if host := want == "/etc"; host != (root == "") {
			t.Errorf("%q is the host itself: %v", dir, !host)
		}
	}
}

// TestReadFileWaitsForNobody: a pipe in the place of a file is an error, and so is what is no file either.
func TestReadFileWaitsForNobody(t *testing.T) {
	root := Root(t.TempDir())
	if err := errors.Join(unix.Mkfifo(root.Path("/pipe"), 0o600), os.Symlink("pipe", root.Path("/link")), os.Mkdir(root.Path("/dir"), 0o700), os.WriteFile(root.Path("/file"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/pipe", "/link", "/dir"} {
		if _, err := root.ReadFile(path); !errors.Is(err, errIrregular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := root.ReadFile("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if data, err := root.ReadFile("/file"); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
}
