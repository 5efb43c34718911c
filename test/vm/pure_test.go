package vm

import (
	"slices"
	"strings"
	"testing"
)

func TestHardware(t *testing.T) {
	t.Parallel()
	h := hardware{disk: Disk{dir: "/disks/d"}, image: "/m/disk.img", serial: "/m/serial.log", sshPort: 20022, authorizedKey: "ssh-ed25519 AAAA\n"}
	bare := strings.Join(h.args(), " ")
	for _, want := range []string{
		"-kernel /disks/d/vmlinuz -initrd /disks/d/initrd.img", "file=/m/disk.img", "-serial file:/m/serial.log",
		"hostfwd=tcp:127.0.0.1:20022-10.0.2.15:22", "restrict=on", "ssh.authorized_keys.root=c3NoLWVkMjU1MTkgQUFBQQo=",
	} {
		if !strings.Contains(bare, want) {
			t.Errorf("without %q: %s", want, bare)
		}
	}
	if strings.Contains(bare, "tap") {
		t.Errorf("a machine that is in no plane's network has a card there: %s", bare)
	}
	h.plugged = true
	if got := strings.Join(h.args(), " "); !strings.Contains(got, "tap,id=hosts,fd=3") {
		t.Errorf("the card of the plane's network is missing: %s", got)
	}
}

func TestSnapshotSince(t *testing.T) {
	t.Parallel()
	look := func(fields ...string) Snapshot {
		t.Helper()
		s, err := parseSnapshot(strings.Join(fields, "\x00") + "\x00")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const file, link = "f 644 0:0 ", "l 777 0:0 "
	before := look(
		"entry etc/same", file, "entry etc/edited", file, "entry etc/mode", file, "entry etc/link", link+"a", "entry etc/removed", file, "entry var/log/syslog", file,
		"content etc/same", "1", "content etc/edited", "2", "content etc/mode", "3", "content etc/removed", "4", "content var/log/syslog", "5")
	now := look(
		"entry etc/same", file, "entry etc/edited", file, "entry etc/mode", "f 600 0:0 ", "entry etc/link", link+"b", "entry etc/a\nb", file, "entry var/log/syslog", file, "entry tmp/x", file,
		"content etc/same", "1", "content etc/edited", "0", "content etc/mode", "3", "content etc/a\nb", "6", "content var/log/syslog", "7", "content tmp/x", "8")
	want := []string{
		"changed: /etc/edited: f 644 0:0 0, was f 644 0:0 2",
		"changed: /etc/link: l 777 0:0 b, was l 777 0:0 a",
		"changed: /etc/mode: f 600 0:0 3, was f 644 0:0 3",
		"gone: /etc/removed",
		"left behind: /etc/a\nb",
	}
	if got := now.Since(before); !slices.Equal(got, want) {
		t.Errorf("changes\n%q, want\n%q", got, want)
	}
	if got := before.Since(before); len(got) != 0 {
		t.Errorf("nothing changed, and there are %q", got)
	}
}

// A connection that was cut must not look like a file system that lost files.
func TestSnapshotCutOff(t *testing.T) {
	t.Parallel()
	for _, printed := range []string{"", "entry a\x00f\x00entry b", "a: permission denied\x00f\x00"} {
		if s, err := parseSnapshot(printed); err == nil {
			t.Errorf("%q is taken for %v", printed, s)
		}
	}
}
