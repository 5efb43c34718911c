package vm

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/live"
)

// installTakes bounds the start of a plane in an emulator.
const installTakes = 20 * time.Minute

// A plane of the package is a service of its machine: it serves again after a power cut, with what it had,
// and nothing is left of it once it was taken away.
func TestService(t *testing.T) {
	m := newMachine(t)
	live.Turn(t, weight)
	boot(t, m)
	before := snapshot(t, m)
	const kubectl = "/root/kubectl"
	if err := m.Send(t.Context(), filepath.Join(binaries(), "kubectl"), kubectl); err != nil {
		t.Fatal(err)
	}
	m.install(t, "slipway")
	slipway := func(args string) string {
		t.Helper()
		begin := time.Now()
		out, err := m.within(installTakes, "set -e; "+args)
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", args, err, out, m.must(t, "journalctl --no-pager -n 100 -u 'slipway-plane-*'"))
		}
		t.Logf("%s: %.1fs\n%s", args, time.Since(begin).Seconds(), out)
		return out
	}
	slipway("slipway install --listen 10.0.2.15 --timeout " + installTakes.String())
	slipway(kubectl + ` --kubeconfig "$(slipway kubeconfig)" create configmap survivor --from-literal=a=b`)
	if out := slipway("slipway install --listen 10.0.2.15"); !strings.Contains(out, "is installed as it is wanted") {
		t.Errorf("install once more: %s", out)
	}

	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, m)
	slipway("until slipway status | grep -q '^PLANE  *ready'; do sleep 2; done")
	slipway(kubectl + ` --kubeconfig "$(slipway kubeconfig)" get configmap survivor`)
	if out := slipway("slipway status"); !strings.Contains(out, "active (running), starts with this machine") || !strings.Contains(out, "https://10.0.2.15:6443") {
		t.Errorf("status after a power cut: %s", out)
	}
	t.Logf("memory:\n%s", m.must(t, "free -m; ps -o rss=,comm= -C slipway"))

	if out, err := m.within(installTakes, "dpkg --remove slipway"); err == nil || !strings.Contains(out, "slipway-plane-slipway.service") {
		t.Errorf("the package of a plane that is a service was removed: %v\n%s", err, out)
	}
	slipway("slipway uninstall; slipway down --purge --yes")
	m.must(t, "rm -rf "+kubectl+" /root/.kube")
	m.purge(t, "slipway", before)
}
