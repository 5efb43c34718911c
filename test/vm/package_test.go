package vm

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// packaged has the machine be a host once more, by Debian's package of the agent and the line
// of `slipway host token --join-command`. In the end the package is purged.
func packaged(t *testing.T, l *life) {
	m := l.machine
	m.install(t, agentPackage)
	m.must(t, l.must(t, "host", "token", "vm-1", "--join-command")+"\nsystemctl enable --now slipway-agent")
	l.eventually(t, availableTakes, "the packaged agent reports", "Provided", "", "get", "host", "vm-1", "--ignore-not-found", "-o", "jsonpath={.status.software.agentManagement}")
	if got := m.must(t, "readlink /proc/$(systemctl show --property MainPID --value slipway-agent)/exe"); got != "/usr/bin/slipway-agent\n" {
		t.Errorf("the agent that runs is %s", got)
	}
	if out, err := l.run("host", "remove", "vm-1", "--ssh", m.Address(), "--identity-file", m.IdentityFile, "--known-hosts", m.KnownHosts); err != nil {
		t.Fatalf("host remove: %v\n%s", err, out)
	}
	m.purge(t, agentPackage, l.before)
}

// TestPackage has a machine with the package alone, which no management cluster knows: preflight
// tells what it lacks, and systemd goes on starting the agent until somebody has told it where
// to enroll, after a power cut, too.
func TestPackage(t *testing.T) {
	m := newMachine(t)
	boot(t, m)
	m.must(t, "systemctl is-system-running --wait || systemctl --failed")
	before := snapshot(t, m)
	m.install(t, agentPackage)
	for _, f := range m.findings(t, "container-runtime") {
		if f.Level != "Error" || !strings.Contains(f.Remedy, "slipway-agent software install") {
			t.Errorf("preflight finds %+v", f)
		}
	}
	m.must(t, "systemctl enable slipway-agent && sync")
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, m)
	m.must(t, "until [ $(systemctl show --property NRestarts --value slipway-agent) -ge 2 ]; do sleep 1; done")
	if state := m.must(t, "systemctl show --property ActiveState --value slipway-agent"); state == "failed\n" {
		t.Errorf("systemd gave the agent up: %s", m.must(t, "systemctl status slipway-agent || true"))
	}
	m.purge(t, agentPackage, before)
}

const agentPackage = "slipway-agent"

// install installs one of Debian's packages that the release has.
func (m *Machine) install(t *testing.T, name string) {
	t.Helper()
	file := "/root/" + name + ".deb"
	if err := m.Send(t.Context(), filepath.Join(binaries(), "packages", name+"-linux-"+runtime.GOARCH+".deb"), file); err != nil {
		t.Fatal(err)
	}
	t.Log(m.must(t, "dpkg --install "+file+" && rm "+file))
}

// purge takes the package away, and all that was there only with it: what the machine was
// before is compared with what it is.
func (m *Machine) purge(t *testing.T, name string, before Snapshot) {
	t.Helper()
	t.Log(m.must(t, "dpkg --purge "+name))
	for _, change := range snapshot(t, m).Since(before) {
		if !strings.Contains(change, ": /var/lib/dpkg/") {
			t.Error(change)
		}
	}
}
