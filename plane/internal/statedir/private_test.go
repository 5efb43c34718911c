package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o500: true, 0o750: false, 0o701: false, 0o777: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		err := CheckPrivate(dir)
		var open *NotPrivateError
		if (err == nil) != ok || err != nil && (!errors.As(err, &open) || !strings.Contains(err.Error(), "`chmod 700 "+dir+"`")) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(file); err == nil || !strings.Contains(err.Error(), "`chmod 600 "+file+"`") {
		t.Errorf("a file that all can read: %v", err)
	}
	if err := CheckPrivate(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestCheckOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to give a directory away")
	}
	dir := filepath.Join(t.TempDir(), "d")
	link := dir + "-link"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(link); err != nil {
		t.Errorf("a link of our own: %v", err)
	}
	if err := os.Lchown(link, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(link); err == nil {
		t.Error("a link that somebody else can point elsewhere passes")
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	var foreign *NotPrivateError
	if err := CheckPrivate(dir); !errors.As(err, &foreign) || foreign.UID != 65534 || !strings.Contains(err.Error(), "chown -R") {
		t.Errorf("somebody else's directory: %v", err)
	}
}
