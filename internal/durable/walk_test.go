package durable_test

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

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// Users of the tests.
const ann, bob = 1234, 1235

// fixture makes a tree in which ann and bob have directories of their own. Each line is "PATH OWNER MODE", "PATH OWNER ->
// TARGET" for a link, or "PATH OWNER MODE CONTENT" for a file; parents come before what is in them.
func fixture(t *testing.T, lines ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to give files away")
	}
	root := t.TempDir()
	owners := map[string]int{"root": 0, "ann": ann, "bob": bob}
	for _, line := range append([]string{
		"/etc root 755", "/etc/secret root 700", "/etc/secret/key root 600 secret", "/users root 755", "/users/ann ann 755", "/users/bob bob 755", "/tmp root 1777",
	}, lines...) {
		f := strings.Fields(line)
		path := filepath.Join(root, f[0])
		var err error
		switch {
		case f[2] == "->":
			err = os.Symlink(strings.ReplaceAll(f[3], "ROOT", root), path)
		case len(f) == 4:
			err = os.WriteFile(path, []byte(f[3]), 0o600)
		default:
			err = os.Mkdir(path, 0o700)
		}
		err = errors.Join(err, os.Lchown(path, owners[f[1]], owners[f[1]]))
		if f[2] != "->" {
			var mode uint32
			for _, digit := range f[2] {
				mode = mode<<3 | uint32(digit-'0')
			}
			err = errors.Join(err, unix.Chmod(path, mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Root follows its own links. A user's link leads to directories of that user only.
func TestFollowedLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		path  string
		// at is where root ends up; empty when it refuses.
		at string
		// refused is the error then; nil means a LinkError.
		refused error
	}{
		"no link":                  {path: "/users/ann/f", at: "/users/ann/f"},
		"a name up":                {path: "/users/ann/../bob/./f", at: "/users/bob/f"},
		"above the top":            {path: "/../../etc/f", at: "/etc/f"},
		"root's, absolute":         {lines: []string{"/data root 755", "/data/ann ann 755", "/users/a root -> ROOT/data/ann"}, path: "/users/a/f", at: "/data/ann/f"},
		"root's, in the tree":      {lines: []string{"/users/a root -> /users/ann"}, path: "/users/a/f", at: "/users/ann/f"},
		"root's, relative":         {lines: []string{"/users/a root -> ../users/./ann"}, path: "/users/a/f", at: "/users/ann/f"},
		"root's, for the name":     {lines: []string{"/etc/link root -> secret/key"}, path: "/etc/link", at: "/etc/secret/key"},
		"root's, to nothing":       {lines: []string{"/etc/link root -> none/key"}, path: "/etc/link", at: "/etc/link"},
		"two of root's":            {lines: []string{"/a root -> b", "/b root -> etc"}, path: "/a/f", at: "/etc/f"},
		"in a circle":              {lines: []string{"/a root -> b", "/b root -> a"}, path: "/a/f", refused: syscall.ELOOP},
		"to a file":                {lines: []string{"/a root -> etc/secret/key"}, path: "/a/f", refused: syscall.ENOTDIR},
		"to the top":               {lines: []string{"/a root -> /"}, path: "/a", refused: syscall.EISDIR},
		"ann's, to root's":         {lines: []string{"/users/ann/.ssh ann -> ../../etc/secret"}, path: "/users/ann/.ssh/f"},
		"ann's, absolute":          {lines: []string{"/users/ann/.ssh ann -> ROOT/etc/secret"}, path: "/users/ann/.ssh/f"},
		"ann's, for the name":      {lines: []string{"/users/ann/f ann -> ../../etc/secret/key"}, path: "/users/ann/f"},
		"ann's, to bob's":          {lines: []string{"/users/ann/.ssh ann -> ../bob"}, path: "/users/ann/.ssh/f"},
		"ann's, by bob to ann's":   {lines: []string{"/users/bob/l bob -> ../ann", "/users/ann/l ann -> ../bob/l"}, path: "/users/ann/l/f"},
		"ann's, by bob to bob's":   {lines: []string{"/users/bob/d bob 700", "/users/bob/l bob -> d", "/users/ann/l ann -> ../bob/l"}, path: "/users/ann/l/f"},
		"ann's, to a file of hers": {lines: []string{"/users/ann/keys ann 600 x", "/users/ann/f ann -> keys"}, path: "/users/ann/f", at: "/users/ann/keys"},
		"ann's, to ann's":          {lines: []string{"/users/ann/d ann 700", "/users/ann/.ssh ann -> d"}, path: "/users/ann/.ssh/f", at: "/users/ann/d/f"},
		"ann's, absolute to hers":  {lines: []string{"/users/ann/d ann 700", "/users/ann/.ssh ann -> ROOT/users/ann/d"}, path: "/users/ann/.ssh/f", at: "/users/ann/d/f"},
		"root's, in ann's":         {lines: []string{"/users/ann/.ssh root -> ../../etc/secret"}, path: "/users/ann/.ssh/f"},
		"root's, in ann's to hers": {lines: []string{"/srv root 755", "/srv/ann ann 700", "/users/ann/.ssh root -> ../../srv/ann"}, path: "/users/ann/.ssh/f", at: "/srv/ann/f"},
		"bob's, in ann's":          {lines: []string{"/users/ann/.ssh bob -> .", "/users/ann/d ann 700"}, path: "/users/ann/.ssh/f"},
		"in what all write":        {lines: []string{"/users/ann/all ann 777", "/users/ann/all/l ann -> .."}, path: "/users/ann/all/l/f"},
		"hers, where she is not":   {lines: []string{"/etc/secret/ann ann 700", "/users/ann/l ann -> ../../etc/secret/ann"}, path: "/users/ann/l/f"},
		"in root's, below ann's":   {lines: []string{"/users/ann/d root 755", "/users/ann/d/l root -> ../../../etc"}, path: "/users/ann/d/l/f"},
		"root's, in /tmp":          {lines: []string{"/tmp/l root -> ../etc"}, path: "/tmp/l/f"},
		"ann's, in /tmp":           {lines: []string{"/tmp/l ann -> ../users/ann"}, path: "/tmp/l/f"},
		"root's, below /tmp":       {lines: []string{"/tmp/d root 755", "/tmp/d/l root -> ../../etc"}, path: "/tmp/d/l/f", at: "/etc/f"},
		"a group's directory":      {lines: []string{"/log root 775", "/log/l root -> ../etc"}, path: "/log/l/f"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixture(t, tt.lines...)
			at := ""
			err := durable.WithTarget(root, tt.path, func(d *durable.Dir, name string) error {
				at = strings.TrimPrefix(d.Path(name), root)
				return d.Replace(name, []byte("new"), 0o600, bob, bob)
			})
			right := err == nil
			switch {
			case tt.refused != nil:
				right = errors.Is(err, tt.refused)
			case tt.at == "":
				right = errors.As(err, new(*durable.LinkError))
			}
			if at != tt.at || !right {
				t.Fatalf("root is at %q, want %q: %v", at, tt.at, err)
			}
			if tt.at == "" {
				if data, err := os.ReadFile(filepath.Join(root, "etc/secret/key")); err != nil || string(data) != "secret" {
					t.Errorf("root's file is %q: %v", data, err)
				}
				return
			}
			if data, err := os.ReadFile(filepath.Join(root, tt.at)); err != nil || string(data) != "new" {
				t.Errorf("%q is at %s: %v", data, tt.at, err)
			}
		})
	}
}

func TestMakeParents(t *testing.T) {
	root := fixture(t, "/users/ann/l ann -> ../../etc/secret", "/users/ann/made ann -> d", "/users/ann/d ann 700",
		"/users/ann/interrupted root 700", "/users/ann/backup root 700", "/users/ann/backup/key root 600 secret")
	for path, refused := range map[string]bool{"/users/ann/interrupted/f": false, "/users/ann/backup/f": false, "/users/ann/a/b/f": false, "/users/ann/made/b/f": false, "/users/ann/l/b/f": true, "/users/ann/l/../l/f": true} {
		if err := durable.MakeParents(root, path, 0o750, ann, bob); (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/users/ann/a", "/users/ann/a/b", "/users/ann/d/b", "/users/ann/interrupted"} {
		if info, err := os.Lstat(filepath.Join(root, path)); err != nil || info.Mode() != fs.ModeDir|0o750 || owner(info) != ann {
			t.Errorf("%s is %v: %v", path, info, err)
		}
	}
	for _, dir := range []string{"etc/secret", "users/ann/backup"} {
		if err := untouched(filepath.Join(root, dir)); err != nil {
			t.Error(err)
		}
	}
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// A file of somebody else is not read for its content to appear in one of the directory's owner.
// Pipes, devices and large files do not stop root.
func TestReadFile(t *testing.T) {
	for name, tt := range map[string]struct {
		make string
		do   func(path string) error
		ok   bool
	}{
		"ann's":              {make: "ann 600 x", ok: true},
		"everybody's":        {make: "root 644 x", ok: true},
		"root's own":         {make: "root 600 x"},
		"a pipe":             {do: func(p string) error { return unix.Mkfifo(p, 0o644) }},
		"a directory":        {make: "ann 755"},
		"a link to root's":   {make: "ann -> ../../etc/secret/key"},
		"a link to a device": {make: "ann -> /dev/zero"},
		"another name of root's": {do: func(p string) error {
			return os.Link(filepath.Join(filepath.Dir(p), "../../etc/secret/key"), p)
		}},
		"a large one": {make: "ann 644 x", do: func(p string) error { return os.Truncate(p, 1<<40) }},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			if tt.make != "" {
				lines = append(lines, "/users/ann/f "+tt.make)
			}
			root := fixture(t, lines...)
			if tt.do != nil {
				if err := tt.do(filepath.Join(root, "users/ann/f")); err != nil {
					t.Fatal(err)
				}
			}
			err := durable.WithParent(root, "/users/ann/f", func(d *durable.Dir, name string) error {
				_, _, err := d.ReadFile(name, 1<<20)
				return err
			})
			if (err == nil) != tt.ok {
				t.Error(err)
			}
		})
	}
	root := fixture(t, "/users/ann/f ann -> ../../etc/secret/key")
	if data, err := durable.ReadAny(root, "/users/ann/f", 1<<10); err != nil || string(data) != "secret" {
		t.Errorf("root reads %q: %v", data, err)
	}
	if data, err := durable.ReadAny("", "/dev/zero", 1<<10); err == nil {
		t.Errorf("root reads %d bytes of a device", len(data))
	}
}

// SetOwner gives away nothing that a user moved to the name.
func TestSetOwner(t *testing.T) {
	root := fixture(t, "/users/ann/f ann 600 x", "/users/ann/theirs root 600 secret", "/users/ann/backup root 700", "/etc/f root 600 x", "/etc/d root 700", "/users/ann/l ann -> ../../etc/secret/key")
	for path, ok := range map[string]bool{"/users/ann/f": true, "/etc/f": true, "/etc/d": true, "/users/ann/theirs": false, "/users/ann/backup": false, "/users/ann/l": false} {
		err := durable.WithParent(root, path, func(d *durable.Dir, name string) error { return d.SetOwner(name, 0o751, bob, bob) })
		if (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
		info, err := os.Lstat(filepath.Join(root, path))
		if err != nil || (owner(info) == bob && info.Mode().Perm() == 0o751) != ok {
			t.Errorf("%s is %v of %d: %v", path, info.Mode(), owner(info), err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "etc/secret/key")); err != nil || owner(info) != 0 || info.Mode() != 0o600 {
		t.Errorf("root's file is %v: %v", info, err)
	}
}

// A log that somebody else has put there, or can open, is not written to.
func TestOpenLog(t *testing.T) {
	for name, tt := range map[string]struct {
		make string
		do   func(path string) error
		kept bool
	}{
		"none":                 {},
		"root's own":           {make: "root 600 before", kept: true},
		"ann's":                {make: "ann 600 before"},
		"one that all read":    {make: "root 644 before"},
		"a link":               {make: "ann -> ../etc/secret/key"},
		"a pipe":               {do: func(p string) error { return unix.Mkfifo(p, 0o600) }},
		"another name of keys": {do: func(p string) error { return os.Link(filepath.Join(filepath.Dir(p), "../etc/secret/key"), p) }},
	} {
		t.Run(name, func(t *testing.T) {
			lines := []string{"/log root 775"}
			if tt.make != "" {
				lines = append(lines, "/log/l "+tt.make)
			}
			root := fixture(t, lines...)
			path := filepath.Join(root, "log/l")
			if tt.do != nil {
				if err := tt.do(path); err != nil {
					t.Fatal(err)
				}
			}
			err := durable.WithParent(root, "/log/l", func(d *durable.Dir, name string) error {
				f, err := d.OpenLog(name)
				if err != nil {
					return err
				}
				_, err = f.WriteString("line")
				return errors.Join(err, f.Close())
			})
			if err != nil {
				t.Fatal(err)
			}
			want := "line"
			if tt.kept {
				want = "beforeline"
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != 0o600 || owner(info) != 0 {
				t.Errorf("the log is %v: %v", info, err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != want {
				t.Errorf("the log is %q, want %q: %v", data, want, err)
			}
			if data, err := os.ReadFile(filepath.Join(root, "etc/secret/key")); err != nil || string(data) != "secret" {
				t.Errorf("root's file is %q: %v", data, err)
			}
		})
	}
}

// A user swaps a directory of theirs with links, a pipe and other directories, as fast as they can,
// while root works below it: nothing else changes, and root does not wait.
func TestSwappedDirectories(t *testing.T) {
	root := fixture(t, "/users/ann/d ann 700", "/users/ann/far ann -> ../../etc/secret",
		"/users/ann/backup root 700", "/users/ann/backup/key root 600 secret", "/users/ann/near ann -> backup")
	swapped := []string{"far", "near", "pipe"}
	if err := unix.Mkfifo(filepath.Join(root, "users/ann/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			other := filepath.Join(root, "users/ann", swapped[i/2%len(swapped)])
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "users/ann/d"), unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
				stopped <- err
				return
			}
		}
	}()
	works := []func() error{
		func() error { return durable.MakeParents(root, "/users/ann/d/sub/f", 0o755, ann, ann) },
		func() error {
			return durable.WithParent(root, "/users/ann/d/key", func(d *durable.Dir, name string) error { return d.Replace(name, nil, 0o644, ann, ann) })
		},
		func() error {
			return durable.WithParent(root, "/users/ann/d/key", func(d *durable.Dir, name string) error { return d.SetOwner(name, 0o666, ann, ann) })
		},
		func() error {
			return durable.WithParent(root, "/users/ann/d/key", func(d *durable.Dir, name string) error { return d.Remove(name) })
		},
		func() error {
			return durable.WithDir(root, "/users/ann/d", func(d *durable.Dir) error { return d.RemoveAll("key") })
		},
		func() error {
			return durable.WithParent(root, "/users/ann/d", func(d *durable.Dir, name string) error { return d.RemoveAll("sub") })
		},
	}
	const rounds = 300
	done, refused := 0, 0
	for i := 0; done < rounds || refused < rounds; i++ {
		if err := works[i%len(works)](); err == nil {
			done++
		} else {
			refused++
		}
		for _, dir := range []string{"etc/secret", "users/ann/backup"} {
			if err := untouched(filepath.Join(root, dir)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// untouched checks that a directory and the key in it are as root made them.
func untouched(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if owner(info) != 0 || info.Mode() != fs.ModeDir|0o700 || len(found) != 1 {
		return fmt.Errorf("%s is %v, and in it are %v", dir, info, found)
	}
	if info, err = found[0].Info(); err != nil {
		return err
	}
	if owner(info) != 0 || info.Mode() != 0o600 || info.Size() != 6 {
		return fmt.Errorf("the key in %s is %v", dir, info)
	}
	return nil
}
