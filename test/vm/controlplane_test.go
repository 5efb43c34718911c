package vm

import (
	"strings"
	"testing"
	"time"
)

// secondEndpoint is the control-plane address of another cluster.
const secondEndpoint = "10.88.0.201"

// clusterTakes bounds a cluster whose control plane is in an emulator: where much else runs, its
// API server may take more than one try of kubeadm.
const clusterTakes = 30 * time.Minute

// aControlPlane has the host be the control plane of a cluster of the release's ClusterClass,
// and hold its address, also after a power cut. The worker is a local host. The host has the
// version by now. The cluster of before goes first: the emulator takes all the processor
// time that there is.
func aControlPlane(t *testing.T, l *life) {
	l.must(t, "cluster", "delete", "local", "--yes", "--wait", "--timeout", resetTakes.String())
	l.must(t, "cluster", "create", "second", "--class", "slipway", "--kubernetes-version", newerVersion, "--endpoint", secondEndpoint,
		"--set", "controlPlaneHostLabels={where: vm}", "--pool", "workers=1", "--service-cidr", "10.97.0.0/16", "--wait", "--timeout", clusterTakes.String())
	t.Logf("cluster create:\n%s", l.said)
	ready := []string{"get", "node", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`}
	l.eventually(t, readyTakes, "two ready nodes", "True True ", "second", ready...)
	// Where an API server is that slow, its agent may give the address up for a while.
	holds := func() {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(lookEvery) {
			addresses := l.machine.must(t, "ip -brief -4 address show")
			if strings.Contains(addresses, " "+secondEndpoint+"/") {
				return
			}
			if time.Since(begin) > readyTakes {
				t.Fatalf("the machine does not hold %s after %s:\n%s", secondEndpoint, readyTakes, addresses)
			}
		}
	}
	holds()
	other, err := l.kubectl("second", "get", "node", "-l", "!node-role.kubernetes.io/control-plane", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		t.Fatal(err)
	}
	l.servesPods(t, "second", other)

	if err := l.machine.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, l.machine)
	begin := time.Now()
	l.eventually(t, readyTakes, "two ready nodes after a power cut", "True True ", "second", ready...)
	t.Logf("of that, after the boot: %.0fs", time.Since(begin).Seconds())
	holds()
	l.servesPods(t, "second", other)

	t.Log(l.must(t, "cluster", "delete", "second", "--yes", "--wait", "--timeout", resetTakes.String()))
	l.eventually(t, resetTakes, "reset", "Available", "", "get", "host", "vm-1", "-o", "jsonpath={.status.phase}{.spec.claim}")
}
