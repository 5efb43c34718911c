package effects_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// operator is the user ID of the account that withHome makes.
const operator = 1234

// withHome makes a host on which root has a secret, and a user has an account and a directory.
func withHome(t *testing.T) *fakehost.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to give files away")
	}
	h := fakehost.New(t)
	h.Put(t, "/etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\noperator:x:%d:%d::/users/operator:/bin/sh\n", operator, operator))
	h.Put(t, "/etc/shadow", "root:*:0::::::\noperator:$6$own:0::::::\n")
	h.Put(t, "/etc/group", "root:x:0:\n")
	h.Put(t, "/etc/secret/key", "root's\n")
	h.Put(t, "/users/operator/.profile", "own\n")
	for _, path := range []string{"/users/operator", "/users/operator/.profile"} {
		if err := os.Chown(h.Root.Path(path), operator, operator); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(h.Root.Path("/etc/secret"), 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// theirs makes something as the operator does.
func theirs(t *testing.T, h *fakehost.Host, path string, do func(path string) error) {
	t.Helper()
	file := h.Root.Path(path)
	if err := errors.Join(do(file), os.Lchown(file, operator, operator)); err != nil {
		t.Fatal(err)
	}
}

func linkTo(target string) func(string) error {
	return func(path string) error { return os.Symlink(target, path) }
}

// secretIsRoots checks that root's directory and the file in it are as they were, and that the content
// of the file is nowhere in the user's directory.
func secretIsRoots(t *testing.T, h *fakehost.Host) {
	t.Helper()
	for path, mode := range map[string]fs.FileMode{"/etc/secret": fs.ModeDir | 0o700, "/etc/secret/key": 0o600} {
		info, err := os.Lstat(h.Root.Path(path))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 || owner.Gid != 0 || info.Mode() != mode {
			t.Errorf("%s, which is root's, has owner %d:%d and mode %v", path, owner.Uid, owner.Gid, info.Mode())
		}
	}
	if found, err := os.ReadDir(h.Root.Path("/etc/secret")); err != nil || len(found) != 1 || read(t, h, "/etc/secret/key") != "root's\n" {
		t.Errorf("in root's directory are %v: %v", found, err)
	}
	err := filepath.WalkDir(h.Root.Path("/users"), func(path string, e fs.DirEntry, err error) error {
		info, statErr := os.Lstat(path)
		if err != nil || statErr != nil || !e.Type().IsRegular() || info.Size() > 1<<20 || info.Sys().(*syscall.Stat_t).Nlink > 1 {
			return errors.Join(err, statErr)
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "root's") {
			t.Errorf("the user has root's secret in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const keysOfOperator = "#cloud-config\nusers: [{name: operator, lock_passwd: false, ssh_authorized_keys: [ssh-ed25519 NEW]}]\n"

// A user of the host puts into their own directory what they like. Root, which writes their keys,
// follows no name of theirs out of it, shows them nothing of its own, and waits for nothing.
func TestKeysOfAUserStayInTheirHome(t *testing.T) {
	mkdir := func(t *testing.T, h *fakehost.Host) {
		t.Helper()
		theirs(t, h, "/users/operator/.ssh", func(p string) error { return os.Mkdir(p, 0o700) })
	}
	for name, tc := range map[string]struct {
		make func(*testing.T, *fakehost.Host)
		// at is where the keys are then; empty when the bootstrap fails.
		at string
	}{
		"nothing is there": {make: func(*testing.T, *fakehost.Host) {}, at: "/users/operator/.ssh/authorized_keys"},
		"the directory is a link": {make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/.ssh", linkTo(h.Root.Path("/etc/secret")))
		}},
		"the directory is a relative link": {make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/.ssh", linkTo("../../etc/secret"))
		}},
		"the directory is a link to one of theirs": {at: "/users/operator/.config/authorized_keys", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/.config", func(p string) error { return os.Mkdir(p, 0o700) })
			theirs(t, h, "/users/operator/.ssh", linkTo(".config"))
		}},
		"all of theirs is on another disk": {at: "/data/operator/.ssh/authorized_keys", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/data/operator", func(p string) error { return os.MkdirAll(p, 0o700) })
			if err := errors.Join(os.RemoveAll(h.Root.Path("/users/operator")), os.Symlink("/data/operator", h.Root.Path("/users/operator"))); err != nil {
				t.Fatal(err)
			}
		}},
		"the file is a link": {make: func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h)
			theirs(t, h, "/users/operator/.ssh/authorized_keys", linkTo("../../../etc/secret/key"))
		}},
		"the file is a link to one of theirs": {at: "/users/operator/.ssh/authorized_keys", make: func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h)
			theirs(t, h, "/users/operator/keys", func(p string) error { return os.WriteFile(p, []byte("ssh-ed25519 OWN\n"), 0o600) })
			theirs(t, h, "/users/operator/.ssh/authorized_keys", linkTo("../keys"))
		}},
		"the file is another name of root's": {make: func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h)
			if err := os.Link(h.Root.Path("/etc/secret/key"), h.Root.Path("/users/operator/.ssh/authorized_keys")); err != nil {
				t.Fatal(err)
			}
		}},
		"the file is a pipe": {make: func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h)
			theirs(t, h, "/users/operator/.ssh/authorized_keys", func(p string) error { return unix.Mkfifo(p, 0o600) })
		}},
		"the file is a device": {make: func(t *testing.T, h *fakehost.Host) {
			mkdir(t, h)
			theirs(t, h, "/users/operator/.ssh/authorized_keys", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := withHome(t), newRecord(t)
			tc.make(t, h)
			before := map[string]string{}
			if tc.at != "" {
				before = wholeTree(t, h)
			}
			err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ClaimID: "claim", Data: []byte(keysOfOperator)}, p)
			if (err == nil) != (tc.at != "") {
				t.Errorf("bootstrap: %v", err)
			}
			secretIsRoots(t, h)
			if tc.at == "" {
				return
			}
			info, err := os.Lstat(h.Root.Path(tc.at))
			if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != operator || !strings.Contains(read(t, h, tc.at), "ssh-ed25519 NEW\n") {
				t.Fatalf("the keys are in %v: %v", info, err)
			}
			for _, dir := range []string{filepath.Dir(tc.at), filepath.Dir(filepath.Dir(tc.at))} {
				if info, err := os.Lstat(h.Root.Path(dir)); err != nil || info.Sys().(*syscall.Stat_t).Uid != operator {
					t.Errorf("%s is %v: %v", dir, info, err)
				}
			}
			if err := h.Executor.Reset(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if left, err := h.Executor.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
				t.Errorf("verified as %q: %v", left, err)
			}
			after := wholeTree(t, h)
			for path, was := range before {
				// A link that is restored is root's.
				link := strings.HasPrefix(was, "L") && strings.HasPrefix(after[path], "L")
				if after[path] != was && !link {
					t.Errorf("%s was %q, and is %q", path, was, after[path])
				}
			}
		})
	}
}

// Who may log in is known whatever users put where their keys are.
func TestPlacesOfKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		keys int
		err  string
	}{
		"a file":                  {make: func(p string) error { return os.WriteFile(p, []byte("ssh-ed25519 A\nssh-ed25519 B\n"), 0o600) }, keys: 2},
		"a link":                  {make: func(p string) error { return os.Symlink("../../../etc/secret/key", p) }, keys: 1},
		"a link to nothing":       {make: func(p string) error { return os.Symlink("none", p) }},
		"a pipe":                  {make: func(p string) error { return unix.Mkfifo(p, 0o600) }},
		"a device without an end": {make: func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) }},
		"a directory":             {make: func(p string) error { return os.Mkdir(p, 0o700) }},
		"a file without an end":   {make: func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Truncate(p, 1<<40)) }, err: "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			h := withHome(t)
			path := "/users/operator/.ssh/authorized_keys"
			if err := os.Mkdir(h.Root.Path(filepath.Dir(path)), 0o700); err != nil {
				t.Fatal(err)
			}
			theirs(t, h, path, tc.make)
			l, err := logins.Read(h.Root)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Error(err)
				}
				return
			}
			if err != nil || len(l.Keys[path]) != tc.keys {
				t.Errorf("%v, %v", l, err)
			}
		})
	}
}

// What bootstrap data writes into a user's directory stays there, and nothing of root's comes into it.
func TestFilesInAHomeStayThere(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*testing.T, *fakehost.Host)
		// file is an entry of write_files but for its owner, at where it is then; empty when it is refused.
		file, at string
	}{
		"a new one": {file: "path: /users/operator/a/b/key, content: own", at: "/users/operator/a/b/key"},
		"below a link": {file: "path: /users/operator/d/key, content: own", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/d", linkTo("../../etc/secret"))
		}},
		"in a new directory below a link": {file: "path: /users/operator/d/new/key, content: own", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/d", linkTo("../../etc/secret"))
		}},
		"at a link": {file: "path: /users/operator/key, content: own", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/key", linkTo(h.Root.Path("/etc/secret/key")))
		}},
		"at a link to nothing": {file: "path: /users/operator/key, content: own", at: "/users/operator/key", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/key", linkTo("none"))
		}},
		"appended to a link": {file: "path: /users/operator/key, content: own, append: true", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/key", linkTo(h.Root.Path("/etc/secret/key")))
		}},
		"appended to another name of root's": {file: "path: /users/operator/key, content: own, append: true", make: func(t *testing.T, h *fakehost.Host) {
			if err := os.Link(h.Root.Path("/etc/secret/key"), h.Root.Path("/users/operator/key")); err != nil {
				t.Fatal(err)
			}
		}},
		"appended to a pipe": {file: "path: /users/operator/key, content: own, append: true", make: func(t *testing.T, h *fakehost.Host) {
			theirs(t, h, "/users/operator/key", func(p string) error { return unix.Mkfifo(p, 0o644) })
		}},
		"appended": {file: "path: /users/operator/.profile, content: own, append: true", at: "/users/operator/.profile"},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := withHome(t), newRecord(t)
			if tc.make != nil {
				tc.make(t, h)
			}
			before := wholeTree(t, h)
			err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ClaimID: "claim", Data: []byte("#cloud-config\nwrite_files: [{owner: operator, " + tc.file + "}]\n")}, p)
			if (err == nil) != (tc.at != "") {
				t.Errorf("bootstrap: %v", err)
			}
			secretIsRoots(t, h)
			if tc.at != "" {
				info, err := os.Lstat(h.Root.Path(tc.at))
				if err != nil || !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Uid != operator || !strings.Contains(read(t, h, tc.at), "own") {
					t.Errorf("the file is %v: %v", info, err)
				}
			}
			if err := h.Executor.Reset(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			secretIsRoots(t, h)
			after := wholeTree(t, h)
			for path := range after {
				if !strings.HasPrefix(path, "/users") {
					delete(after, path)
				} else if after[path] != before[path] && !strings.HasPrefix(before[path], "L") {
					t.Errorf("%s was %q, and is %q", path, before[path], after[path])
				}
			}
		})
	}
}

// Between a bootstrap and its reset, a user puts links to root's directory where the bootstrap wrote:
// the reset removes nothing there, gives nothing away, and names the file.
func TestResetStaysInTheHome(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		// make and swap are what the user does before and after the bootstrap.
		make, swap func(*testing.T, *fakehost.Host)
	}{
		"a file that was made": {data: "write_files: [{path: /users/operator/d/key, content: own}]", swap: swapped("/users/operator/d")},
		"a file that was replaced": {
			data: "write_files: [{path: /users/operator/d/key, content: own}]", swap: swapped("/users/operator/d"),
			make: func(t *testing.T, h *fakehost.Host) {
				theirs(t, h, "/users/operator/d", func(p string) error { return os.Mkdir(p, 0o755) })
				theirs(t, h, "/users/operator/d/key", func(p string) error { return os.WriteFile(p, []byte("before"), 0o644) })
			},
		},
		"a link that was replaced": {
			data: "write_files: [{path: /users/operator/d/key, content: own}]", swap: swapped("/users/operator/d"),
			make: func(t *testing.T, h *fakehost.Host) {
				theirs(t, h, "/users/operator/d", func(p string) error { return os.Mkdir(p, 0o755) })
				theirs(t, h, "/users/operator/d/key", linkTo("none"))
			},
		},
		"keys": {data: keysOfOperator, swap: swapped("/users/operator/.ssh")},
		"keys with another mode": {
			data: keysOfOperator,
			make: func(t *testing.T, h *fakehost.Host) {
				theirs(t, h, "/users/operator/.ssh", func(p string) error { return os.Mkdir(p, 0o755) })
				theirs(t, h, "/users/operator/.ssh/authorized_keys", func(p string) error { return os.WriteFile(p, []byte("ssh-ed25519 OWN\n"), 0o644) })
			},
			swap: func(t *testing.T, h *fakehost.Host) {
				theirs(t, h, "/users/operator/.ssh/new", linkTo("../../../etc/secret/key"))
				if err := os.Rename(h.Root.Path("/users/operator/.ssh/new"), h.Root.Path("/users/operator/.ssh/authorized_keys")); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := withHome(t), newRecord(t)
			if tc.make != nil {
				tc.make(t, h)
			}
			data := "#cloud-config\n" + strings.TrimPrefix(tc.data, "#cloud-config\n")
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ClaimID: "claim", Data: []byte(data)}, p); err != nil {
				t.Fatal(err)
			}
			tc.swap(t, h)
			// The bootstrap was interrupted: nothing tells what became of the files that it replaced.
			if err := p.Update(func(s *journal.State) { s.Made = nil }); err != nil {
				t.Fatal(err)
			}
			err := h.Executor.Reset(t.Context(), p)
			secretIsRoots(t, h)
			left, verifyErr := h.Executor.Verify(t.Context(), p.State())
			if name != "keys" && err == nil && len(left) == 0 {
				t.Errorf("the host is proved clean: %v", verifyErr)
			}
		})
	}
}

// swapped puts a link to root's directory in the place of one of the user's.
func swapped(dir string) func(*testing.T, *fakehost.Host) {
	return func(t *testing.T, h *fakehost.Host) {
		t.Helper()
		if err := os.Rename(h.Root.Path(dir), h.Root.Path(dir+"-moved")); err != nil {
			t.Fatal(err)
		}
		theirs(t, h, dir, linkTo(h.Root.Path("/etc/secret")))
	}
}

// Programs of a group may write to /var/log: a full reset empties no directory that they lead it to.
func TestFullResetEmptiesItsOwnDirectories(t *testing.T) {
	h, p := withHome(t), newRecord(t)
	h.Put(t, "/var/log/pods/a", "")
	if err := errors.Join(os.Chmod(h.Root.Path("/var/log"), 0o775), os.Chown(h.Root.Path("/var/log"), 0, operator)); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ClaimID: "claim", Data: []byte("#cloud-config\nruncmd: ['true']\n")}, p); err != nil {
		t.Fatal(err)
	}
	swapped("/var/log/pods")(t, h)
	if err := p.Update(func(s *journal.State) {
		s.Operation.Phase, s.Operation.ResetPolicy = infrav1.HostDesiredReset, infrav1.ResetPolicyFull
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Reset(t.Context(), p); err == nil || !strings.Contains(err.Error(), "/var/log/pods") {
		t.Errorf("reset: %v", err)
	}
	secretIsRoots(t, h)
}
