package reset

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFingerprintsOfFiles: a fingerprint is the same for all agents, since a record may be older than the agent.
func TestFingerprintsOfFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("content"), 0o600), os.Chmod(at("file"), 0o640), os.Mkdir(at("dir"), 0o755), os.Chmod(at("dir"), 0o777|os.ModeSticky),
		os.WriteFile(at("program"), nil, 0o600), os.Chmod(at("program"), 0o755|os.ModeSetuid|os.ModeSetgid), os.Symlink("target", at("link")),
		unix.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := os.Chmod(at("socket"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "dir", "program", "link", "pipe", "socket"} {
		info, err := os.Lstat(at(name))
		is := unix.Stat_t{}
		if err == nil {
			err = unix.Lstat(at(name), &is)
		}
		if err != nil || modeOf(is.Mode) != info.Mode() {
			t.Errorf("%s: mode %v, want %v, %v", name, modeOf(is.Mode), info.Mode(), err)
		}
	}
	link := "link target"
	if os.Getuid() != 0 {
		link = fmt.Sprintf("link@%d:%d - target", os.Getuid(), os.Getgid())
	}
	for name, want := range map[string]string{
		"file": "file 640 U 7XACtDnprIRfIjV9 -", "dir": "dir 4000777 U -", "program": "file 60000755 U 47DEQpj8HBSa+/TI -", "link": link,
		"pipe": "p--------- 600 U 0 -", "socket": "S--------- 755 U 0 -",
	} {
		info, err := os.Lstat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		is, err := describe(at(name), fs.FileInfoToDirEntry(info), false)
		want = strings.Replace(want, " U", fmt.Sprintf(" %d:%d", os.Getuid(), os.Getgid()), 1)
		if err != nil || is != want {
			t.Errorf("%s: %q, %v, want %q", name, is, err, want)
		}
	}
}
