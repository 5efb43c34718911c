package reset_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestDevicesOfStorage: disks that drivers of storage attach, or make of files and of other disks, go with the claim; those of the
// operator and of other engines stay, and so does hardware.
func TestDevicesOfStorage(t *testing.T) {
	h := fakehost.New(t)
	attach := func(name string, attributes map[string]string) {
		t.Helper()
		put(t, h, "/dev/"+name, "")
		mkdir(t, h, "/sys/block/"+name)
		for attribute, value := range attributes {
			put(t, h, "/sys/block/"+name+"/"+attribute, value+"\n")
		}
	}
	session := func(id, target, disk string) {
		t.Helper()
		put(t, h, "/sys/class/iscsi_session/session"+id+"/targetname", target+"\n")
		mkdir(t, h, "/sys/class/iscsi_session/session"+id+"/device/target3:0:0/3:0:0:1/block/"+disk)
	}
	attach("sda", nil)
	attach("dm-0", map[string]string{"dm/name": "vg-root", "dm/uuid": "LVM-a"})
	attach("loop0", map[string]string{"loop/backing_file": "/srv/own.img"})
	attach("loop1", nil)
	attach("zram0", map[string]string{"disksize": "0"})
	attach("sdb", nil)
	session("1", "iqn.2001-04.com.example:own", "sdb")
	put(t, h, "/sys/class/nvme/nvme0/transport", "pcie\n")
	put(t, h, "/dev/nvme0", "")
	put(t, h, "/etc/iscsi/nodes/own", "")
	put(t, h, "/sys/bus/rbd/remove_single_major", "")
	baseline := recorded(t, h)

	attach("dm-1", map[string]string{"dm/name": "luks-pvc", "dm/uuid": "CRYPT-LUKS2-b"})
	attach("loop2", map[string]string{"loop/backing_file": "/var/lib/kubelet/volume.img"})
	attach("loop3", map[string]string{"loop/backing_file": "/var/lib/snapd/snaps/core_1.snap"})
	attach("rbd7", nil)
	attach("nbd0", map[string]string{"pid": "17"})
	attach("drbd1", nil)
	attach("zram0", map[string]string{"disksize": "1024", "reset": "0"})
	attach("sdc", nil)
	session("2", "iqn.2019-10.io.longhorn:pvc-1", "sdc")
	session("3", "iqn.2019-10.io.other:of-the-machine-around", "sdz")
	put(t, h, "/sys/class/nvme/nvme1/transport", "tcp\n")
	put(t, h, "/sys/class/nvme/nvme1/subsysnqn", "nqn.2016-06.io.example:pvc\n")
	put(t, h, "/sys/class/nvme/nvme1/address", "traddr=10.0.0.9\n")
	put(t, h, "/sys/class/nvme/nvme1/delete_controller", "")
	put(t, h, "/dev/nvme1", "")
	put(t, h, "/sys/class/nvme/nvme2/transport", "pcie\n") // somebody plugged it in
	put(t, h, "/dev/nvme2", "")
	mkdir(t, h, "/sys/block/loop9/loop")
	put(t, h, "/sys/block/loop9/loop/backing_file", "of-the-machine-around") // there is no file for it in /dev
	put(t, h, "/etc/iscsi/nodes/iqn.2019-10.io.longhorn:pvc-1/10.0.0.8,3260,1/default", "password")
	mkdir(t, h, "/sys/kernel/config/target/core/alua", "/sys/kernel/config/target/core/fileio_0", "/sys/kernel/config/target/iscsi/iqn.a", "/sys/kernel/config/target/iscsi/discovery_auth", "/sys/kernel/config/nvmet/subsystems/a", "/sys/kernel/config/nvmet/hosts")

	want := []string{
		"block device NVMe nqn.2016-06.io.example:pvc by tcp traddr=10.0.0.9", "block device drbd1", "block device iSCSI iqn.2019-10.io.longhorn:pvc-1",
		"block device loop of /var/lib/kubelet/volume.img", "block device mapping luks-pvc", "block device nbd0", "block device rbd7",
		"block device served as nvmet/subsystems/a", "block device served as target/core/fileio_0", "block device served as target/iscsi/iqn.a", "block device zram0",
		"directory /etc/iscsi/nodes/iqn.2019-10.io.longhorn:pvc-1",
	}
	if found := leftOf(t, h, baseline); !slices.Equal(found, want) {
		t.Errorf("leftovers are %q, want %q", found, want)
	}
	busy := true
	h.Programs.Does = func(line string) error {
		gone := map[string]string{
			"dmsetup remove --retry luks-pvc": "dm-1", "nbd-client -d /dev/nbd0": "nbd0",
		}[line]
		switch {
		case line == "losetup --detach /dev/loop2" && busy:
			busy = false
			return os.ErrDeadlineExceeded
		case line == "losetup --detach /dev/loop2":
			gone = "loop2"
		case line == "iscsiadm --mode session --sid 2 --logout":
			return os.RemoveAll(h.Root.Path("/sys/class/iscsi_session/session2"))
		}
		if gone == "" {
			return nil
		}
		return os.RemoveAll(h.Root.Path("/sys/block/" + gone))
	}
	if err := h.Executor.Cleaner.Reset(t.Context(), &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}); err != nil {
		t.Error(err)
	}
	for path, content := range map[string]string{"/sys/bus/rbd/remove_single_major": "7", "/sys/block/zram0/reset": "1", "/sys/class/nvme/nvme1/delete_controller": "1"} {
		if got, err := os.ReadFile(h.Root.Path(path)); err != nil || strings.TrimSpace(string(got)) != content {
			t.Errorf("%s has %q, %v; want %q", path, got, err, content)
		}
	}
	for _, line := range h.Programs.Ran() {
		if strings.Contains(line, "loop0") || strings.Contains(line, "vg-root") || strings.Contains(line, "--sid 1") || strings.Contains(line, "loop3") {
			t.Errorf("ran %q, of a device of the operator's", line)
		}
	}
	// What the kernel took away by what was written.
	for _, path := range []string{"/sys/block/rbd7", "/sys/class/nvme/nvme1", "/sys/block/zram0"} {
		if err := os.RemoveAll(h.Root.Path(path)); err != nil {
			t.Error(err)
		}
	}
	if found := leftOf(t, h, baseline); !slices.Equal(found, []string{"block device drbd1", "block device served as nvmet/subsystems/a", "block device served as target/core/fileio_0", "block device served as target/iscsi/iqn.a"}) {
		t.Errorf("leftovers are %q", found)
	}
	if _, err := os.Lstat(filepath.Join(string(h.Root), "/etc/iscsi/nodes/own")); err != nil {
		t.Error(err)
	}
}

// TestWhatRunsLater: jobs of at, accounts whose services run without a login, and units that somebody made with systemd-run are named.
func TestWhatRunsLater(t *testing.T) {
	h := fakehost.New(t)
	mkdir(t, h, "/var/spool/at", "/var/lib/systemd/linger", "/run/systemd/transient", "/var/lib/iscsi/nodes")
	baseline := recorded(t, h)
	for _, path := range []string{"/var/spool/at/a0001", "/var/lib/systemd/linger/root", "/run/systemd/transient/evil.timer", "/run/systemd/transient/session-1.scope", "/run/systemd/transient/cri-containerd-1.scope", "/var/lib/iscsi/nodes/a"} {
		put(t, h, path, "")
	}
	want := []string{"file /run/systemd/transient/evil.timer", "file /var/lib/iscsi/nodes/a", "file /var/lib/systemd/linger/root", "file /var/spool/at/a0001"}
	if found := leftOf(t, h, baseline); !slices.Equal(found, want) {
		t.Errorf("leftovers are %q, want %q", found, want)
	}
}
