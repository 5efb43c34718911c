package vm

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
	"github.com/slipway-dev/slipway/test/registry"
)

// Limits of waits, far above what they take: they end a test that hangs.
const (
	addTakes       = 30 * time.Minute
	availableTakes = time.Minute
	readyTakes     = 15 * time.Minute
	resetTakes     = 10 * time.Minute
	fetchTakes     = 20 * time.Minute
)

// Versions of the life of a host: it begins with the older one.
var (
	olderVersion = versions.ToPlane().From.Version
	newerVersion = versions.Plane().Version
)

// life is a host from the machine that it was before to the machine that it is after.
type life struct {
	*plane
	// t is that of all parts.
	t       *testing.T
	machine *Machine
	// former is the program of an agent of the version before.
	former string
	// software is where the host has its software from, once it is a host.
	software *registry.Registry
	// stop has the registry stop.
	stop func()
	// before is what the machine was.
	before Snapshot
}

// nodeReady is whether the machine is a ready node of the cluster, as kubectl is asked.
var nodeReady = []string{"get", "node", "vm-1", "--ignore-not-found", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`}

// A machine that has nothing is refused as long as it is not fit, and when its disk fills up
// meanwhile. By one command it becomes a host, with an agent of the version before, which
// updates itself. The host becomes a worker, and outlives a power cut; it is upgraded in place
// with a version that it fetches meanwhile, through a registry that goes away and a power cut;
// then it is a control plane. In the end the machine is what it was, also after the agent came
// as a package.
func TestHost(t *testing.T) {
	l := &life{t: t, machine: newMachine(t)}
	l.former = filepath.Join(t.TempDir(), "slipway-agent")
	l.software = registry.New(t, binaries(), softwareAddress)
	live.FormerAgent(t, l.former)
	l.plane = newPlane(t, 2, worker)
	l.machine.Plane = l.Name
	boot(t, l.machine)
	for _, part := range []struct {
		name string
		run  func(t *testing.T, l *life)
	}{
		{"refused", refused},
		{"fills up", fillsUp},
		{"added", added},
		{"updates its agent", updatesAgent},
		{"remedied", remedied},
		{"a worker", aWorker},
		{"outlives a power cut", outlivesPowerCut},
		{"upgraded in place", upgradedInPlace},
		{"reset", reset},
		{"a control plane", aControlPlane},
		{"removed", removed},
		{"as a package", packaged},
	} {
		begin := time.Now()
		if !t.Run(part.name, func(t *testing.T) { part.run(t, l) }) {
			return
		}
		t.Logf("%s: %.0fs", part.name, time.Since(begin).Seconds())
	}
}

// remember keeps what the machine was before anything of a host came onto it.
func (l *life) remember(t *testing.T) {
	t.Helper()
	if l.before == nil {
		l.before = snapshot(t, l.machine)
	}
}

// olderAgent are the flags of `slipway host add` by which the machine gets the agent of the
// version before, and what the older version of Kubernetes takes.
func olderAgent(l *life) []string {
	return []string{"--agent", l.former, "--kubernetes-version", olderVersion, "--labels", "where=vm"}
}

// added makes a host of the machine. A second run finds nothing to do.
func added(t *testing.T, l *life) {
	l.remember(t)
	flags := olderAgent(l)
	if got := l.add(t, l.machine.Address(), l.machine, flags...); got.State != "Added" || got.Name != "vm-1" {
		t.Fatalf("host add: %+v", got)
	}
	l.eventually(t, availableTakes, "available", "Available vm "+live.FormerVersion, "", "get", "host", "vm-1", "-o", "jsonpath={.status.phase} {.metadata.labels.where} {.status.inventory.agentVersion}")
	if got := l.add(t, l.machine.Address(), l.machine, flags...); got.State != "Unchanged" {
		t.Errorf("host add once more: %+v", got)
	}
}

// aWorker has the host serve pods that the control plane, a local host, reaches.
func aWorker(t *testing.T, l *life) {
	l.scale(t, 1)
	l.eventually(t, readyTakes, "a ready node", "True", "local", nodeReady...)
	l.servesPods(t, "local", "vm-1")
	t.Logf("memory and disk of the node:\n%s", l.machine.must(t, `free -m; df -m /; ps -o rss=,comm= -C slipway-agent,containerd,kubelet`))
}

func outlivesPowerCut(t *testing.T, l *life) {
	if err := l.machine.PowerCut(); err != nil {
		t.Fatal(err)
	}
	l.eventually(t, readyTakes, "the node is missed", "Unknown", "local", nodeReady...)
	boot(t, l.machine)
	l.eventually(t, readyTakes, "ready after a power cut", "True", "local", nodeReady...)
	l.servesPods(t, "local", "vm-1")
}

// reset ends the worker: the host is clean, and free.
func reset(t *testing.T, l *life) {
	l.scale(t, 0)
	l.eventually(t, resetTakes, "reset", "Available", "", "get", "host", "vm-1", "-o", "jsonpath={.status.phase}{.spec.claim}")
}

// removed makes a machine of the host. Nothing is left of all that it was.
func removed(t *testing.T, l *life) {
	out, err := l.run("host", "remove", "vm-1", "--ssh", l.machine.Address(), "--identity-file", l.machine.IdentityFile, "--known-hosts", l.machine.KnownHosts, "-o", "json")
	t.Logf("host remove: %v\n%s%s", err, out, l.said)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := l.kubectl("", "get", "host", "vm-1", "--ignore-not-found"); err != nil || out != "" {
		t.Errorf("the Host: %q (%v)", out, err)
	}
	l.machine.must(t, "rm -rf "+registryFolder)
	for _, change := range snapshot(t, l.machine).Since(l.before) {
		t.Error(change)
	}
	if left := l.machine.must(t, `systemctl list-unit-files --no-legend 'slipway*' 'kubelet*' 'containerd*'; ps -eo comm | grep -E 'slipway|kubelet|containerd|etcd' || true; ip -brief address show | grep -E 'flannel|cni|10\.88\.0\.20[0-9]/' || true`); strings.TrimSpace(left) != "" {
		t.Errorf("left behind:\n%s", left)
	}
}
