package vm

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"
)

// Limits of waits, far above what they take: they end a test that hangs.
const (
	addTakes       = 30 * time.Minute
	availableTakes = time.Minute
	readyTakes     = 15 * time.Minute
	resetTakes     = 10 * time.Minute
)

// added is what `slipway host add -o json` promises for a machine.
type added struct {
	Name, State, Step, Reason, Message, Remedy string
	Seconds                                    float64
}

// add runs `slipway host add` for the machine.
func (p *plane) add(t *testing.T, address string, m *Machine, args ...string) added {
	t.Helper()
	out, err := p.run(append([]string{"host", "add", address, "--identity-file", m.IdentityFile, "--known-hosts", m.KnownHosts,
		"--host-bundle", filepath.Join(p.bin, "hostbundle"), "--public-key", filepath.Join(p.bin, "hostbundle.pub"), "--timeout", addTakes.String(), "-o", "json"}, args...)...)
	var machines []added
	if json.Unmarshal([]byte(out), &machines) != nil || len(machines) != 1 {
		t.Fatalf("host add: %v\n%s", err, out)
	}
	if (err == nil) != (machines[0].State != "Failed") {
		t.Errorf("host add ends with %v, and says %+v", err, machines[0])
	}
	t.Logf("host add: %+v\n%s", machines[0], p.said)
	return machines[0]
}

// nodeReady is whether the machine is a ready node of the cluster, as kubectl is asked.
var nodeReady = []string{"get", "node", "vm-1", "--ignore-not-found", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`}

// A machine that has nothing becomes a host, and a node, by one command; the node outlives
// a power cut; the end of its Machine makes an available host of it again.
func TestHost(t *testing.T) {
	m := newMachine(t)
	p := newPlane(t, workerless)
	m.Plane = p.Name
	boot(t, m)

	if got := p.add(t, m.Address(), m, "--labels", "rack=1"); got.State != "Added" || got.Name != "vm-1" {
		t.Fatalf("host add: %+v", got)
	}
	p.eventually(t, availableTakes, "available", "Available 1", "", "get", "host", "vm-1", "-o", "jsonpath={.status.phase} {.metadata.labels.rack}")
	if got := p.add(t, m.Address(), m, "--labels", "rack=1"); got.State != "Unchanged" {
		t.Errorf("host add once more: %+v", got)
	}

	p.scale(t, 1)
	p.eventually(t, readyTakes, "a ready node", "True", "local", nodeReady...)
	t.Logf("memory and disk of the node:\n%s", m.must(t, `free -m; df -m /; ps -o rss=,comm= -C slipway-agent,containerd,kubelet`))
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	p.eventually(t, readyTakes, "the node is missed", "Unknown", "local", nodeReady...)
	boot(t, m)
	p.eventually(t, readyTakes, "ready after a power cut", "True", "local", nodeReady...)

	p.scale(t, 0)
	p.eventually(t, resetTakes, "reset", "Available", "", "get", "host", "vm-1", "-o", "jsonpath={.status.phase}{.spec.claim}")
}
