package vm

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/live"
)

const (
	// softwareAddress is that of a registry in the network of hosts.
	softwareAddress = "10.88.0.1:5000"
	// registryFolder of the machine is its administrator's, who takes it away again.
	registryFolder = "/srv/registry"
)

// updatesAgent has the registry and the plane know a release: the agent of the host, of the
// version before, becomes the one of the plane, under systemd and by itself.
func updatesAgent(t *testing.T, l *life) {
	layout, key := filepath.Join(l.bin, "hostbundle"), filepath.Join(l.bin, "hostbundle.pub")
	l.serveSoftware(t, layout)
	m := l.machine
	for from, to := range map[string]string{l.software.CAFile: registryFolder + "/ca.crt", l.software.ConfigFile: registryFolder + "/config.json"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		m.must(t, "umask 077; mkdir -p "+registryFolder+"; cat >"+to+" <<'END'\n"+string(content)+"\nEND\n")
	}
	m.must(t, `cat >>/etc/slipway/agent.yaml <<'END'
  sources: ["oci://`+softwareAddress+`/host-bundles"]
  caFile: `+registryFolder+`/ca.crt
  registryConfigFile: `+registryFolder+`/config.json
END
systemctl restart slipway-agent`)
	pid := m.must(t, "systemctl show --property MainPID --value slipway-agent")
	l.must(t, "bundle", "load", layout, "--public-key", key)
	version := live.Version(t, filepath.Join(l.bin, "slipway-agent"))
	l.eventually(t, fetchTakes, "the agent is that of the plane", version, "", "get", "host", "vm-1", "-o", "jsonpath={.status.inventory.agentVersion}")
	l.eventually(t, availableTakes, "the release is rolled out", "RolledOut 1", "", "get", "agentrelease", version, "-o", `jsonpath={.status.conditions[?(@.type=="RolledOut")].reason} {.status.updated}`)
	if now := m.must(t, "systemctl show --property MainPID --value slipway-agent"); now != pid {
		t.Errorf("the agent was process %s, and is %s", pid, now)
	}
	if got := m.must(t, "/usr/local/bin/slipway-agent version"); strings.TrimSpace(got) != version {
		t.Errorf("the program on the machine is of %s, want %s", got, version)
	}
}

// serveSoftware brings all host bundles into the registry, and has it serve in the network
// of hosts.
func (l *life) serveSoftware(t *testing.T, layout string) {
	t.Helper()
	tags := []string{olderVersion, newerVersion, "slipway-agent-" + live.Version(t, filepath.Join(l.bin, "slipway-agent"))}
	l.software.Namespace = l.Name
	l.stop = l.software.Serve(l.t)
	for _, tag := range tags {
		if err := l.software.Push(t.Context(), layout, "host-bundles", tag); err != nil {
			t.Fatal(err)
		}
	}
}

// upgradedInPlace takes the cluster to the newer version, and the worker after it, without a
// new Machine. The host lacks that version: it begins to fetch it, the registry goes away,
// comes back, and the machine loses its power. What it has by then it does not fetch again.
func upgradedInPlace(t *testing.T, l *life) {
	pool, err := l.kubectl("", "get", "hostmachinepool", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := l.kubectl("", "patch", strings.TrimSpace(pool), "--type=merge", "-p", `{"spec":{"strategy":{"type":"InPlace"}}}`); err != nil {
		t.Fatal(err, out)
	}
	if out, err := l.kubectl("", "patch", "cluster", "local", "--type=merge", "-p", `{"spec":{"topology":{"version":"`+newerVersion+`"}}}`); err != nil {
		t.Fatal(err, out)
	}
	l.eventually(t, readyTakes, "a control plane of the newer version", newerVersion, "local", "get", "node", "-l", "node-role.kubernetes.io/control-plane", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}")
	machine, err := l.kubectl("", "get", "host", "vm-1", "-o", "jsonpath={.spec.claim.machineName}")
	if err != nil {
		t.Fatal(err)
	}
	uid := []string{"get", "machine", machine, "-o", "jsonpath={.metadata.uid}"}
	before, err := l.kubectl("", uid...)
	if err != nil {
		t.Fatal(err)
	}
	l.fetching(t, 10<<20)
	l.stop()
	t.Logf("the registry is gone: %s", l.tells(t))
	time.Sleep(20 * time.Second) // what an administrator takes to notice
	l.stop = l.software.Serve(l.t)
	l.fetching(t, 40<<20)
	if err := l.machine.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, l.machine)
	l.eventually(t, fetchTakes, "upgraded", newerVersion+" True", "", "get", "hostmachine", machine, "-o", `jsonpath={.status.version} {.status.conditions[?(@.type=="UpToDate")].status}`)
	l.eventually(t, readyTakes, "serves in the newer version", newerVersion+" True", "local", "get", "node", "vm-1", "-o", `jsonpath={.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}{.spec.unschedulable}`)
	l.servesPods(t, "local", "vm-1")
	if after, err := l.kubectl("", uid...); err != nil || after != before {
		t.Errorf("the Machine was %s and is %s (%v)", before, after, err)
	}
	if log := l.software.Log(t); !strings.Contains(log, `" 206 `) {
		t.Errorf("no download went on where it was cut:\n%s", log[max(0, len(log)-8<<10):])
	}
}

// fetching waits until the machine has fetched so many bytes of software.
func (l *life) fetching(t *testing.T, bytes int) {
	t.Helper()
	l.machine.must(t, `set -eu
for i in $(seq 600); do
  have=$(du -sb /var/lib/slipway-software.fetched 2>/dev/null | cut -f1) || have=
  [ "${have:-0}" -ge `+strconv.Itoa(bytes)+` ] && exit
  sleep 1
done
echo "only ${have:-0} bytes are fetched" >&2
exit 1`)
}

// tells is what the Host says of its operation.
func (l *life) tells(t *testing.T) string {
	t.Helper()
	out, err := l.kubectl("", "get", "host", "vm-1", "-o", "jsonpath={.status.observedOperation}")
	if err != nil {
		t.Error(err)
	}
	return out
}
