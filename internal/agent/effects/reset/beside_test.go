package reset_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestWhatRunsBeforeTheSystemsOwn: programs and settings that are found before others, and data that pods make beside directories of the
// system, are removed where a node runs them, and named elsewhere.
func TestWhatRunsBeforeTheSystemsOwn(t *testing.T) {
	const later = ", which is not what it was before"
	h := fakehost.New(t)
	mkdir(t, h, "/opt/containerd/bin", "/var/lib/extensions", "/var/lib/docker/containers/own", "/mnt", "/root", "/srv", "/home/own")
	for file, content := range map[string]string{"/etc/passwd": "own:x:1000:1000::/home/own:/bin/sh\n", "/etc/shadow": "own:$6$a:1::::::\n", "/etc/cdi/own.yaml": "own"} {
		put(t, h, file, content)
		if err := os.Chmod(h.Root.Path(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	baseline := recorded(t, h)
	for _, file := range []string{
		"/opt/containerd/bin/runc", "/run/cdi/a.json", "/etc/cdi/own.yaml", "/var/lib/extensions/a/usr/bin/ls", "/run/confexts/a.raw", "/usr/share/containers/oci/hooks.d/a.json",
		"/var/lib/docker/containers/theirs/config.v2.json", "/data/a", "/mnt/data/a", "/var/openebs/a", "/vmlinuz.old", "/opt/.docker/a", "/srv/bin/a",
		"/root/.bash_aliases", "/root/bin/ls", "/root/.local/bin/ls", "/home/own/bin/ls", "/run/systemd/resolved.conf.d/a.conf", "/run/systemd/shutdown/scheduled", "/run/nologin", "/run/netplan/a.yaml",
	} {
		put(t, h, file, "theirs")
	}
	for file, mode := range map[string]fs.FileMode{"/etc/passwd": 0o666, "/etc/shadow": 0o604, "/": 0o777} {
		if err := os.Chmod(h.Root.Path(file), mode); err != nil {
			t.Fatal(err)
		}
	}
	p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles, Made: map[string]string{}}}
	if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
		t.Errorf("reset: %v", err)
	}
	want := []string{
		"directory /" + later, "directory /data", "directory /home/own/bin", "directory /mnt/data", "directory /opt/.docker", "directory /root/.local/bin", "directory /root/bin", "directory /run/confexts",
		"directory /run/netplan", "directory /run/systemd/resolved.conf.d", "directory /run/systemd/shutdown", "directory /srv/bin", "directory /usr/share/containers",
		"directory /var/lib/docker/containers/theirs", "directory /var/lib/extensions/a", "directory /var/openebs",
		"file /etc/passwd" + later, "file /etc/shadow" + later, "file /root/.bash_aliases", "file /run/nologin",
	}
	left := leftOf(t, h, baseline)
	slices.Sort(left)
	if !slices.Equal(left, want) {
		t.Errorf("left is\n%q, want\n%q", left, want)
	}
	for _, file := range []string{"/opt/containerd/bin/runc", "/run/cdi/a.json"} {
		if _, err := os.Lstat(h.Root.Path(file)); err == nil {
			t.Errorf("%s is there", file)
		}
	}
	if content, err := h.Root.ReadFile("/etc/cdi/own.yaml"); string(content) != "own" {
		t.Errorf("/etc/cdi/own.yaml is %q, %v", content, err)
	}
	// What the bootstrap itself changed of the accounts' files is given back, their lines are not.
	if err := os.Chmod(h.Root.Path("/etc/shadow"), 0o640); err != nil {
		t.Fatal(err)
	}
	baseline = recorded(t, h)
	p = &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
	put(t, h, "/etc/shadow", "a:!:1::::::\n")
	if err := errors.Join(os.Chmod(h.Root.Path("/etc/shadow"), 0o666), os.Chmod(h.Root.Path("/"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Cleaner.RecordMade(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
		t.Errorf("reset: %v", err)
	}
	info, err := os.Stat(h.Root.Path("/etc/shadow"))
	if content, _ := h.Root.ReadFile("/etc/shadow"); err != nil || info.Mode() != 0o640 || string(content) != "a:!:1::::::\n" {
		t.Errorf("/etc/shadow is %v, %q, %v", info, content, err)
	}
}

// TestDriversOfDevices: a device that was given to another driver, as for virtual machines, is given back. One that had none is not a
// change when a module takes it.
func TestDriversOfDevices(t *testing.T) {
	const gpu, card = "/sys/bus/pci/devices/0000:01:00.0", "/sys/bus/pci/devices/0000:02:00.0"
	h := fakehost.New(t)
	mkdir(t, h, gpu, card, "/sys/bus/pci/drivers/nvidia", "/sys/bus/pci/drivers/vfio-pci", "/sys/bus/pci/drivers/ixgbe")
	bound := func(device, driver string) {
		t.Helper()
		at := h.Root.Path(device + "/driver")
		if err := errors.Join(os.RemoveAll(at), os.Symlink("../../drivers/"+driver, at)); err != nil {
			t.Fatal(err)
		}
	}
	bound(gpu, "nvidia")
	put(t, h, gpu+"/driver_override", "(null)\n")
	baseline := recorded(t, h)
	bound(gpu, "vfio-pci")
	bound(card, "ixgbe")
	put(t, h, gpu+"/driver_override", "vfio-pci\n")
	want := []string{"setting " + gpu + "/driver, which is not what it was before", "setting " + gpu + "/driver_override, which is not what it was before"}
	if left := leftOf(t, h, baseline); !slices.Equal(left, want) {
		t.Errorf("left is %q, want %q", left, want)
	}
	p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
	if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{"/sys/bus/pci/drivers/vfio-pci/unbind": "0000:01:00.0", "/sys/bus/pci/drivers/nvidia/bind": "0000:01:00.0", gpu + "/driver_override": "\n"} {
		if is, err := os.ReadFile(h.Root.Path(file)); string(is) != want {
			t.Errorf("%s has %q, %v", file, is, err)
		}
	}
	bound(gpu, "nvidia") // as the kernel does by that
	if left := leftOf(t, h, baseline); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// TestWhatIsMadeOfFiles is made again when they are put back.
func TestWhatIsMadeOfFiles(t *testing.T) {
	for file, program := range map[string]string{
		"/etc/ld.so.conf.d/a.conf": "ldconfig", "/usr/local/share/ca-certificates/a.crt": "update-ca-certificates --fresh", "/etc/aliases": "newaliases", "/etc/udev/hwdb.d/a.hwdb": "systemd-hwdb update",
	} {
		h := fakehost.New(t)
		baseline := recorded(t, h)
		p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
		put(t, h, file, "theirs")
		if err := h.Executor.Cleaner.RecordMade(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := h.Executor.Cleaner.Reset(t.Context(), p); err != nil {
			t.Error(err)
		}
		ran := h.Programs.Ran()
		if all := []string{"ldconfig", "newaliases", "systemd-hwdb update", "update-ca-certificates --fresh"}; !slices.Contains(ran, program) || slices.ContainsFunc(all, func(other string) bool { return other != program && slices.Contains(ran, other) }) {
			t.Errorf("of %s was run %q, want %q", file, ran, program)
		}
	}
}
