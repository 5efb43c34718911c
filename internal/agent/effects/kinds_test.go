package effects_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// hands change files of a host, as an operator or a tenant does. An error ends the test.
type hands struct {
	*testing.T
	*fakehost.Host
}

func (h hands) must(errs ...error) {
	h.Helper()
	if err := errors.Join(errs...); err != nil {
		h.Fatal(err)
	}
}

// file writes one, with a mode.
func (h hands) file(path, content string, mode fs.FileMode) {
	h.Helper()
	at := h.Root.Path(path)
	h.must(os.MkdirAll(filepath.Dir(at), 0o755), os.RemoveAll(at), os.WriteFile(at, []byte(content), 0o600), os.Chmod(at, mode))
}

// write changes the content of a file as it is.
func (h hands) write(path string) {
	h.Helper()
	f, err := os.OpenFile(h.Root.Path(path), os.O_WRONLY|os.O_TRUNC, 0)
	h.must(err)
	_, err = f.WriteString("theirs")
	h.must(err, f.Close())
}

func (h hands) pipe(path string) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Dir(h.Root.Path(path)), 0o755), os.RemoveAll(h.Root.Path(path)), unix.Mkfifo(h.Root.Path(path), 0o640))
}

func (h hands) device(path string, minor uint32) {
	h.Helper()
	h.must(unix.Mknod(h.Root.Path(path), unix.S_IFCHR|0o600, int(unix.Mkdev(1, minor))))
}

func (h hands) link(target, path string) {
	h.Helper()
	h.must(os.RemoveAll(h.Root.Path(path)), os.Symlink(target, h.Root.Path(path)))
}

func (h hands) remove(path string) { h.Helper(); h.must(os.RemoveAll(h.Root.Path(path))) }

func (h hands) hard(path, other string) {
	h.Helper()
	h.must(os.Link(h.Root.Path(path), h.Root.Path(other)))
}

func (h hands) mkdir(path string, mode fs.FileMode) {
	h.Helper()
	h.must(os.MkdirAll(h.Root.Path(path), 0o755), os.Chmod(h.Root.Path(path), mode))
}

func (h hands) attribute(path, name string) {
	h.Helper()
	h.must(unix.Lsetxattr(h.Root.Path(path), name, []byte("v\xff"), 0))
}

// lock does what chattr does.
func (h hands) lock(path string, immutable bool) {
	h.Helper()
	h.must(durable.WithParent(string(h.Root), path, func(d *durable.Dir, name string) error {
		return d.SetAttributes(name, durable.Attributes{Immutable: immutable})
	}))
}

// TestFilesOfEachKind: of a host of whose files a bootstrap changed some of each kind, and in each way, all are what they
// were after the reset, but what is named.
func TestFilesOfEachKind(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to make devices and to give files away")
	}
	long := strings.Repeat("a", 255)
	for name, tc := range map[string]struct {
		own, tenant func(h hands)
		data        string
		// later is what somebody does when the bootstrap has ended.
		later func(h hands)
		// refused is a part of what the bootstrap fails with.
		refused string
		named   []string
		// differs is what is not as it was, though nobody names it: see docs/hosts.md.
		differs []string
	}{
		"pipes and devices": {
			own: func(h hands) {
				for _, at := range []string{"/etc/p1", "/etc/p2", "/etc/p3"} {
					h.pipe(at)
				}
				h.device("/etc/d1", 3)
				h.device("/etc/d2", 3)
				h.file("/etc/own", "own", 0o644)
			},
			tenant: func(h hands) {
				h.remove("/etc/p1")
				h.file("/etc/p2", "theirs", 0o600)
				h.must(os.Chmod(h.Root.Path("/etc/p3"), 0o666))
				h.remove("/etc/d1")
				h.device("/etc/d1", 1)
				h.remove("/etc/d2")
				h.remove("/etc/own")
				h.pipe("/etc/own")
				h.pipe("/etc/cni/net.d/new")
				h.pipe("/etc/new")
				h.device("/etc/new-device", 1)
			},
		},
		"a socket": {
			own: func(h hands) {
				l, err := net.Listen("unix", h.Root.Path("/etc/own.sock"))
				h.must(err)
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				h.must(l.Close())
			},
			tenant: func(h hands) { h.remove("/etc/own.sock") },
			named:  []string{"file /etc/own.sock, which was there before, is gone"}, differs: []string{"/etc/own.sock"},
		},
		"pipes where files are read": {
			own: func(h hands) { h.file("/etc/sudoers.d/own", "own", 0o440) },
			tenant: func(h hands) {
				for _, at := range []string{
					"/etc/ssl/certs/p", "/usr/local/share/ca-certificates/p", "/var/lib/dpkg/info/p.list", "/var/lib/dpkg/info/p.md5sums",
					"/etc/sudoers.d/p", "/var/lib/slipway-software.json", "/etc/kubernetes/manifests/etcd.yaml",
				} {
					h.pipe(at)
				}
				h.file("/etc/ssl/certs/x.pem", "-----BEGIN CERTIFICATE-----\n", 0o644)
			},
			named: []string{"directory /var/lib/dpkg"}, differs: []string{"/var/lib/dpkg", "/var/lib/dpkg/info", "/var/lib/dpkg/info/p.list", "/var/lib/dpkg/info/p.md5sums", "/var/lib/slipway-software.json"},
		},
		"names that are no text": {
			own: func(h hands) {
				for _, at := range []string{"/etc/new\nline", "/etc/bad\xff\xfe", "/etc/bad\xff\xfd", "/etc/other\xff"} {
					h.file(at, "own", 0o644)
				}
				h.link("a b\xff\nc", "/etc/l")
				h.link("a  b ", "/etc/m")
				h.attribute("/etc/other\xff", "user.x\xff")
				h.attribute("/etc/other\xff", "user.x\xfe")
			},
			tenant: func(h hands) {
				h.write("/etc/new\nline")
				h.write("/etc/bad\xff\xfe")
				h.link("theirs", "/etc/l")
				h.remove("/etc/m")
				h.file("/etc/cni/net.d/new\xff", "theirs", 0o600)
				h.file("/etc/new\xff", "theirs", 0o600)
				h.must(unix.Removexattr(h.Root.Path("/etc/other\xff"), "user.x\xff"))
			},
		},
		"names that are named": {
			own:    func(h hands) { h.file("/etc/bad\xff\n\u202e", "own", 0o600) },
			tenant: func(h hands) { h.write("/etc/bad\xff\n\u202e") },
			named:  []string{`file /etc/bad\xff\n\u202e, which is not what it was before`}, differs: []string{"/etc/bad\xff\n\u202e"},
		},
		"long names": {
			own: func(h hands) { h.file("/etc/"+long, "own", 0o644); h.file("/srv/"+long, "own", 0o600) },
			tenant: func(h hands) {
				h.write("/etc/" + long)
				h.file("/etc/cni/net.d/"+long, "theirs", 0o600)
			},
			data: "write_files: [{path: /srv/" + long + ", content: theirs}]",
		},
		"several names of one file": {
			own: func(h hands) {
				h.file("/srv/x", "own", 0o644)
				h.hard("/srv/x", "/etc/own")
				h.file("/srv/y", "own", 0o640)
				h.hard("/srv/y", "/etc/written")
				h.file("/srv/z", "own", 0o600)
				h.hard("/srv/z", "/etc/appended")
				h.file("/etc/a", "own", 0o644)
				h.hard("/etc/a", "/etc/b")
				h.file("/etc/other", "own", 0o644)
				h.file("/srv/other", "other", 0o644)
			},
			tenant: func(h hands) {
				h.write("/etc/own")
				h.write("/etc/b")
				h.remove("/etc/other")
				h.hard("/srv/other", "/etc/other")
			},
			data: "write_files: [{path: /etc/written, content: theirs}, {path: /etc/appended, content: theirs, append: true}, {path: /etc/appended, content: again, append: true}]",
		},
		"another file in the place of one with several names": {
			own: func(h hands) {
				h.file("/srv/x", "own", 0o644)
				h.hard("/srv/x", "/etc/own")
				h.file("/srv/other", "other", 0o644)
			},
			tenant: func(h hands) {
				h.remove("/etc/own")
				h.hard("/srv/other", "/etc/own")
			},
			differs: []string{"/etc/own", "/srv/x"}, // as they are two files now
		},
		"a new name of a locked file": {
			own: func(h hands) {
				h.file("/etc/a", "own", 0o644)
				h.file("/srv/a", "own", 0o644)
				h.lock("/etc/a", true)
				h.lock("/srv/a", true)
				h.mkdir("/etc/locked", 0o755)
				h.lock("/etc/locked", true)
			},
			tenant: func(h hands) {
				for _, at := range []string{"/etc/a", "/srv/a", "/etc/locked"} {
					h.lock(at, false)
				}
				h.mkdir("/var/lib/kubelet/d", 0o755)
				h.hard("/etc/a", "/etc/b")
				h.hard("/etc/a", "/etc/cni/net.d/b")
				h.hard("/srv/a", "/var/lib/kubelet/d/b")
				h.file("/etc/locked/new", "theirs", 0o600)
				for _, at := range []string{"/etc/a", "/srv/a", "/etc/locked"} {
					h.lock(at, true)
				}
			},
		},
		"attributes and owners of what is no file": {
			own: func(h hands) {
				h.link("a", "/etc/l")
				h.link("a", "/etc/m")
				h.must(os.Lchown(h.Root.Path("/etc/m"), 5, 6))
				h.link("a", "/etc/n")
				h.attribute("/etc/n", "trusted.own")
				h.pipe("/etc/p")
			},
			tenant: func(h hands) {
				h.must(os.Lchown(h.Root.Path("/etc/l"), 7, 8), os.Lchown(h.Root.Path("/etc/m"), 0, 0), unix.Lremovexattr(h.Root.Path("/etc/n"), "trusted.own"))
				h.attribute("/etc/l", "trusted.x")
				h.attribute("/etc/p", "trusted.x")
			},
		},
		"directories and links": {
			own: func(h hands) {
				h.file("/etc/d/e/f", "own", 0o644)
				h.mkdir("/srv/other", 0o755)
				h.file("/srv/other/e/f", "other", 0o644)
				h.file("/srv/d/f", "own", 0o644)
				h.link("../srv/d", "/etc/l")
				h.file("/srv/data/f", "own", 0o644)
			},
			tenant: func(h hands) {
				h.remove("/etc/d")
				h.link("../srv/other", "/etc/d")
				h.remove("/etc/l")
				h.file("/etc/l/f", "theirs", 0o644)
				h.link("../../srv/data", "/var/lib/kubelet")
				h.remove("/etc/cni/net.d")
				h.link("../../srv/data", "/etc/cni/net.d")
			},
		},
		"a link in the place of a directory that is looked at": {
			own: func(h hands) {
				h.file("/usr/local/bin/f", "own", 0o755)
				h.file("/srv/other/f", "other", 0o644)
			},
			tenant: func(h hands) {
				h.must(os.Rename(h.Root.Path("/usr/local"), h.Root.Path("/srv/local")))
				h.link("../srv/local", "/usr/local")
			},
			named:   []string{"directory /srv/local", "file /usr/local/bin, which was there before, is gone", "file /usr/local/bin/f, which was there before, is gone"},
			differs: []string{"/srv/local", "/srv/local/bin", "/srv/local/bin/f", "/usr/local/bin", "/usr/local/bin/f"},
		},
		"a link to a file that was changed, too": {
			own: func(h hands) {
				h.file("/usr/local/bin/f", "own", 0o755)
				h.file("/srv/other/bin/f", "theirs", 0o755)
			},
			tenant: func(h hands) { h.write("/usr/local/bin/f") },
			later: func(h hands) {
				h.remove("/usr/local")
				h.link("../srv/other", "/usr/local")
			},
			named:   []string{"file /usr/local, which is not what it was before", "file /usr/local/bin/f, which is not what it was before"},
			differs: []string{"/usr/local", "/usr/local/bin", "/usr/local/bin/f"},
		},
		"who may write to the directories above": {
			own: func(h hands) {
				h.mkdir("/tmp", 0o777|fs.ModeSticky)
				h.mkdir("/etc/sudoers.d", 0o750)
			},
			tenant: func(h hands) {
				for _, at := range []string{"/etc", "/etc/cni", "/usr", "/usr/lib", "/usr/bin", "/var", "/var/lib", "/srv", "/root", "/home", "/run", "/tmp", "/etc/sudoers.d"} {
					h.must(os.Chmod(h.Root.Path(at), 0o777), os.Chown(h.Root.Path(at), 7, 8))
				}
			},
		},
		"a login of root": {
			own: func(h hands) {
				h.mkdir("/root/.ssh", 0o700)
				h.file("/root/.ssh/authorized_keys", "ssh-ed25519 OWN\n", 0o600)
				h.file("/root/.ssh/config", "own", 0o644)
				h.file("/etc/sudoers.d/own", "own", 0o440)
				h.mkdir("/etc/sudoers.d/directory", 0o755)
			},
			tenant: func(h hands) {
				h.write("/root/.ssh/config")
				h.must(os.Chmod(h.Root.Path("/root/.ssh"), 0o777))
				for _, at := range []string{"/root/.ssh/rc", "/root/.ssh/id_ed25519", "/root/.bash_login", "/root/.k5login", "/etc/sudoers.d/new"} {
					h.file(at, "theirs", 0o644)
				}
				h.link("/tmp/later", "/etc/sudoers.d/link")
			},
		},
		"modes of the rules of sudo": {
			own: func(h hands) { h.file("/etc/sudoers", "own", 0o440); h.file("/etc/sudoers.d/own", "own", 0o440) },
			tenant: func(h hands) {
				h.must(os.Chmod(h.Root.Path("/etc/sudoers"), 0o666), os.Chown(h.Root.Path("/etc/sudoers.d/own"), 7, 8))
			},
			named: []string{"changed sudo rules in /etc/sudoers.d/own"}, differs: []string{"/etc/sudoers.d/own"},
		},
		"keys where there were none": {
			own: func(h hands) {
				h.file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\noperator:x:1234:1234::/home/operator:/bin/sh\n", 0o644)
				h.file("/etc/shadow", "root:*:0::::::\noperator:*:0::::::\n", 0o600)
				h.mkdir("/home/operator", 0o700)
				h.must(os.Chown(h.Root.Path("/home/operator"), 1234, 1234))
			},
			data: "users: [{name: operator, lock_passwd: false, ssh_authorized_keys: [ssh-ed25519 THEIRS]}]",
		},
		"a large file with holes": {
			own: func(h hands) {
				h.file("/etc/large", "own", 0o640)
				h.must(os.Truncate(h.Root.Path("/etc/large"), 40<<20))
			},
			data: "write_files: [{path: /etc/large, content: theirs}]",
		},
		"a pipe for the arguments of the kubelet": {own: func(hands) {}, tenant: func(h hands) { h.pipe("/etc/default/kubelet") }, refused: "/etc/default/kubelet: not a regular file"},
		"write_files on a pipe":                   {own: func(h hands) { h.pipe("/etc/p") }, data: "write_files: [{path: /etc/p, content: x, append: true}]", refused: "/etc/p is not a regular file: prw-r-----"},
		"write_files on a device":                 {own: func(h hands) { h.device("/etc/d", 3) }, data: "write_files: [{path: /etc/d, content: x}]", refused: "/etc/d is not a regular file"},
		"write_files on a directory":              {own: func(h hands) { h.mkdir("/etc/d", 0o700) }, data: "write_files: [{path: /etc/d, content: x}]", refused: "/etc/d is not a regular file"},
		"write_files on a loop":                   {own: func(h hands) { h.link("l", "/etc/l") }, data: "write_files: [{path: /etc/l, content: x}]", refused: "too many levels of symbolic links"},
		"write_files on a link to one":            {own: func(h hands) { h.mkdir("/srv/d", 0o700); h.link("../srv/d", "/etc/l") }, data: "write_files: [{path: /etc/l, content: x}]", refused: "/srv/d is not a regular file"},
		"write_files on a link to nothing": {
			own: func(h hands) { h.link("none\xff", "/etc/l") }, data: "write_files: [{path: /etc/l, content: x}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, p := hands{t, fakehost.New(t)}, newRecord(t)
			t.Cleanup(func() {
				_ = durable.WithDir(string(h.Root), "/", func(d *durable.Dir) error { return errors.Join(d.RemoveAll("etc"), d.RemoveAll("srv")) })
			})
			for _, dir := range []string{"/etc/default", "/var/log", "/srv", "/etc/cni/net.d", "/usr/bin", "/usr/lib", "/etc/sudoers.d", "/home", "/root", "/etc/ssl/certs"} {
				h.mkdir(dir, 0o755)
			}
			tc.own(h)
			before := wholeTree(t, h.Host)
			rename := h.Executor.Applier.SetHostname
			h.Executor.Applier.SetHostname = func(name string) error {
				if tc.tenant != nil {
					tc.tenant(h)
				}
				return rename(name)
			}
			err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\nhostname: theirs\n" + tc.data + "\n")}, p)
			if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
				t.Fatalf("the bootstrap ends with %v, want %q", err, tc.refused)
			}
			if tc.later != nil {
				tc.later(h)
			}
			tries := 1
			if tc.refused != "" || tc.named != nil {
				tries = 2
			}
			for try := range tries {
				if err := h.Executor.Reset(t.Context(), p); err != nil && tc.named == nil && (try > 0 || tc.refused == "") {
					t.Errorf("reset: %v", err)
				}
			}
			left, err := h.Executor.Verify(t.Context(), p.State())
			if err != nil || !slices.Equal(left, tc.named) {
				t.Errorf("left is %q, want %q: %v", left, tc.named, err)
			}
			differs, after := []string{}, wholeTree(t, h.Host)
			for _, path := range slices.Sorted(maps.Keys(before)) {
				if after[path] != before[path] {
					differs = append(differs, path)
				}
			}
			for path := range after {
				if _, was := before[path]; !was {
					differs = append(differs, path)
				}
			}
			slices.Sort(differs)
			if !slices.Equal(differs, append([]string{}, tc.differs...)) {
				said := ""
				for _, path := range differs {
					said += fmt.Sprintf("\n%q\n\tis  %s\n\twas %s", path, after[path], before[path])
				}
				t.Errorf("differs: %s", said)
			}
		})
	}
}
