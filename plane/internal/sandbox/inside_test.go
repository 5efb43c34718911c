package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// asRoot skips a test that cannot change what belongs to root.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root")
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// assertEmpty holds that nothing was made in a directory of the machine.
func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	if found, err := os.ReadDir(dir); err != nil || len(found) > 0 {
		t.Errorf("there is %v in a directory of the machine: %v", found, err)
	}
}

// TestLinksOfAHostLeadNowhere: whoever is root of a host puts links where the next start makes directories, files and mounts.
func TestLinksOfAHostLeadNowhere(t *testing.T) {
	for name, do := range map[string]func(in inside) error{
		"directory": func(in inside) error { return in.mkdirAll("/opt/slipway/bundle", 0) },
		"file":      func(in inside) error { return in.touch("/opt/slipway/slipway-agent") },
		"link":      func(in inside) error { return in.link("target", "/opt/slipway/link") },
		"program, itself": func(in inside) error {
			return in.touch("/opt/program")
		},
	} {
		for _, relative := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				machine, root := t.TempDir(), t.TempDir()
				must(t, os.Mkdir(filepath.Join(root, "opt"), 0o755))
				to := machine
				if relative {
					to = "../../../../../../../.." + machine
				}
				must(t, os.Symlink(to, filepath.Join(root, "opt/slipway")), os.Symlink(to+"/new", filepath.Join(root, "opt/program")))
				_ = do(inside(root)) // it may be made within the root, or refused
				assertEmpty(t, machine)
			})
		}
	}
}

// TestLinksWithinAHostAreFollowed: an operator moves a directory of a host to another place of it.
func TestLinksWithinAHostAreFollowed(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "var/lib"), 0o755), os.MkdirAll(filepath.Join(root, "opt/data"), 0o755), os.Symlink("/opt/data", filepath.Join(root, "var/lib/etcd")))
	must(t, inside(root).mkdirAll("/var/lib/etcd/member", 0), inside(root).touch("/var/lib/etcd/file"))
	for _, made := range []string{"opt/data/member", "opt/data/file"} {
		if _, err := os.Lstat(filepath.Join(root, made)); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskOfAHostLeadsNowhere: the disk of a host is prepared again with each start.
func TestDiskOfAHostLeadsNowhere(t *testing.T) {
	asRoot(t)
	dir, machine := t.TempDir(), t.TempDir()
	if err := prepareDisk(dir); err != nil {
		rights.Skip(t, "no overlay can be marked here:", err)
	}
	for _, path := range []string{"var/lib/kubelet", "overlay/etc/upper/cni", "overlay/etc/upper/default", "overlay/etc/upper/kubernetes"} {
		at := filepath.Join(dir, path)
		must(t, os.RemoveAll(at), os.Symlink(machine, at))
	}
	_ = prepareDisk(dir)
	assertEmpty(t, machine)
	if n, err := unix.Getxattr(machine, "trusted.overlay.opaque", nil); err == nil {
		t.Errorf("a directory of the machine is marked, with %d bytes", n)
	}
	// A link in /etc is the host's own affair, and no reason not to start.
	must(t, os.Remove(filepath.Join(dir, "var/lib/kubelet")), prepareDisk(dir))
}

// TestMountsStayOnTheHost: what is mounted below a directory that the host writes to.
func TestMountsStayOnTheHost(t *testing.T) {
	asRoot(t)
	machine, root, source := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "opt"), 0o755), os.Symlink(machine, filepath.Join(root, "opt/slipway")), os.WriteFile(filepath.Join(source, "file"), nil, 0o600))
	done := make(chan error, 1)
	var seen []os.DirEntry
	go func() {
		runtime.LockOSThread() // never unlocked: its mounts end with it
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			_ = mountStep{op: opBind, path: "/opt/slipway", source: source, readonly: true}.apply(root)
			_ = mountStep{op: opBind, path: "/opt/slipway/bundle", source: source}.apply(root)
			err = mountStep{op: opBind, path: "/opt/real", source: source, readonly: true}.apply(root)
		}
		if err == nil {
			seen, err = os.ReadDir(machine)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "opt/real/new"), nil, 0o600)
			if err == nil {
				err = os.ErrInvalid // it is read-only
			} else {
				_, err = os.Stat(filepath.Join(root, "opt/real/file"))
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(seen) > 0 {
		t.Errorf("in a directory of the machine there is %v", seen)
	}
}

// TestFilesOfAHostAreItsOwn: root of the machine reads logs and certificates on the disk of a host, and takes a mark from it.
func TestFilesOfAHostAreItsOwn(t *testing.T) {
	machine := t.TempDir()
	secret := filepath.Join(machine, "reboot")
	for name, put := range map[string]func(dir string) error{
		"link": func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "reboot")) },
		"relative link": func(dir string) error {
			return os.Symlink("../../../../../../../.."+secret, filepath.Join(dir, "reboot"))
		},
		"directory": func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink(machine, dir)) },
		"link of links": func(dir string) error {
			return errors.Join(os.Symlink("/proc/self/root", filepath.Join(dir, "up")), os.Symlink("up"+secret, filepath.Join(dir, "reboot")))
		},
		"pipe":            func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "reboot"), 0o600) },
		"directory again": func(dir string) error { return os.Mkdir(filepath.Join(dir, "reboot"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			dir := filepath.Join(disk, stateDir)
			must(t, os.WriteFile(secret, []byte("boot\n"), 0o600), os.MkdirAll(dir, 0o700), put(dir), writeJSON(filepath.Join(disk, recordFile), Record{BootID: "boot"}))
			if f, err := Open(disk, rebootMark); err == nil {
				t.Errorf("%s of the machine was opened: %v", f.Name(), f.Close())
			}
			if WantsReboot(disk) {
				t.Error("a file of the machine is taken for the mark of a host")
			}
			_ = ForgetReboot(disk) // a directory stays
			if _, err := os.Lstat(secret); err != nil {
				t.Errorf("a file of the machine is gone: %v", err)
			}
		})
	}
	// A link to another place of the host is its operator's.
	disk := t.TempDir()
	mark := filepath.Join(disk, "opt/state/reboot")
	must(t, os.MkdirAll(filepath.Join(disk, "var/lib"), 0o700), os.MkdirAll(filepath.Dir(mark), 0o700), os.Symlink("/opt/state", filepath.Join(disk, stateDir)),
		os.WriteFile(mark, []byte("boot\n"), 0o600), writeJSON(filepath.Join(disk, recordFile), Record{BootID: "boot"}))
	if !WantsReboot(disk) {
		t.Error("the mark is not found")
	}
	must(t, ForgetReboot(disk))
	if _, err := os.Lstat(mark); err == nil {
		t.Error("the mark is there still")
	}
}
