package vm

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packaged has the machine be a host once more, by Debian's package of the agent and the line
// of `slipway host token --join-command`. In the end the package is purged.
func packaged(t *testing.T, l *life) {
	m := l.machine
	const file = "/root/slipway-agent.deb"
	if err := m.Send(t.Context(), filepath.Join(l.bin, "packages", "slipway-agent-linux-"+runtime.GOARCH+".deb"), file); err != nil {
		t.Fatal(err)
	}
	t.Log(m.must(t, "dpkg --install "+file+" && rm "+file))
	m.must(t, l.must(t, "host", "token", "vm-1", "--join-command")+"\nsystemctl enable --now slipway-agent")
	l.eventually(t, availableTakes, "the packaged agent reports", "Provided", "", "get", "host", "vm-1", "--ignore-not-found", "-o", "jsonpath={.status.software.agentManagement}")
	if got := m.must(t, "readlink /proc/$(systemctl show --property MainPID --value slipway-agent)/exe"); got != "/usr/bin/slipway-agent\n" {
		t.Errorf("the agent that runs is %s", got)
	}
	if out, err := l.run("host", "remove", "vm-1", "--ssh", m.Address(), "--identity-file", m.IdentityFile, "--known-hosts", m.KnownHosts); err != nil {
		t.Fatalf("host remove: %v\n%s", err, out)
	}
	t.Log(m.must(t, "dpkg --purge slipway-agent"))
	changes := slices.DeleteFunc(snapshot(t, m).Since(l.before), func(change string) bool { return strings.Contains(change, ": /var/lib/dpkg/") })
	for _, change := range changes {
		t.Error(change)
	}
}
