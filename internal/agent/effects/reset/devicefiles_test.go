package reset_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestFilesOfDevices: mode, owner and number of the files of devices are restored, and what is no file of the kernel's goes.
func TestFilesOfDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root, to make devices")
	}
	h := fakehost.New(t)
	node := func(path string, kind, mode uint32, minor uint32) {
		t.Helper()
		at := h.Root.Path(path)
		if err := errors.Join(os.RemoveAll(at), unix.Mknod(at, kind|0o600, int(unix.Mkdev(7, minor))), os.Chmod(at, os.FileMode(mode))); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/dev/mapper", "/dev/disk"} {
		mkdir(t, h, dir)
	}
	node("/dev/sda", unix.S_IFBLK, 0o660, 1)
	node("/dev/sdb", unix.S_IFBLK, 0o660, 2)
	node("/dev/sdc", unix.S_IFBLK, 0o660, 3)
	node("/dev/gone", unix.S_IFBLK, 0o660, 4)
	node("/dev/unplugged", unix.S_IFBLK, 0o660, 5)
	node("/dev/mapper/control", unix.S_IFCHR, 0o600, 6)
	node("/dev/tty1", unix.S_IFCHR, 0o620, 7)
	put(t, h, "/sys/dev/block/7:4/uevent", "MAJOR=7\nMINOR=4\nDEVNAME=gone\nDEVTYPE=disk\n")
	put(t, h, "/sys/dev/block/7:8/uevent", "DEVNAME=plugged\n")
	baseline, err := h.Executor.Cleaner.Baseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := journal.State{Baseline: baseline}
	verify := func() []string {
		left, err := h.Executor.Verify(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	if left := verify(); left != nil {
		t.Fatalf("before anything changed is left: %q", left)
	}

	node("/dev/sda", unix.S_IFBLK, 0o666, 1)
	if err := os.Chown(h.Root.Path("/dev/sdb"), 1234, 0); err != nil {
		t.Fatal(err)
	}
	node("/dev/sdc", unix.S_IFBLK, 0o660, 1) // the first disk under another name
	for _, path := range []string{"/dev/gone", "/dev/unplugged"} {
		if err := os.Remove(h.Root.Path(path)); err != nil {
			t.Fatal(err)
		}
	}
	node("/dev/mapper/control", unix.S_IFCHR, 0o666, 6)
	node("/dev/tty1", unix.S_IFCHR, 0o600, 7)
	node("/dev/disk/theirs", unix.S_IFBLK, 0o666, 1)
	node("/dev/plugged", unix.S_IFBLK, 0o660, 8)
	put(t, h, "/dev/shm.txt", "data")
	want := []string{
		"file of a device /dev/disk/theirs", "file of a device /dev/mapper/control, which is not what it was before", "file of a device /dev/sda, which is not what it was before",
		"file of a device /dev/sdb, which is not what it was before", "file of a device /dev/sdc, which is not what it was before", "file of a device /dev/gone, which was there before, is gone",
	}
	if left := verify(); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	if err := h.Executor.Reset(t.Context(), &progress{state: state}); err != nil {
		t.Error(err)
	}
	if left := verify(); left != nil {
		t.Errorf("after the reset is left: %q", left)
	}
	is := unix.Stat_t{}
	if err := unix.Lstat(h.Root.Path("/dev/sdc"), &is); err != nil || is.Rdev != unix.Mkdev(7, 3) || is.Mode != unix.S_IFBLK|0o660 {
		t.Errorf("/dev/sdc has number %x and mode %o: %v", is.Rdev, is.Mode, err)
	}
	for _, path := range []string{"/dev/plugged", "/dev/tty1", "/dev/shm.txt"} {
		if _, err := os.Lstat(h.Root.Path(path)); err != nil {
			t.Error(err)
		}
	}
}
