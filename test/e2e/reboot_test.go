package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// held is a pod of host-3 that no drain may evict.
const held = `
apiVersion: v1
kind: Pod
metadata: {name: held, labels: {app: held}}
spec:
  nodeName: host-3
  containers: [{name: held, image: slipway.dev/echo:v1, imagePullPolicy: Never}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held}
spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}
`

// TestClusterReboot reboots a pool over two racks with real kubelets while a workload answers, with a power cut in the
// middle of a drain and a command that is interrupted; then what a budget and somebody else's cordon make of a drain.
func TestClusterReboot(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 5)
	p.up("--fast", "--no-cluster", "--hosts", "5")
	workers := []string{"host-2", "host-3", "host-4", "host-5"}
	for host, rack := range map[string]string{"host-1": "a", "host-2": "b", "host-3": "a", "host-4": "b", "host-5": "a"} {
		p.mustKubectl("", "label", "host", host, "rack="+rack)
	}
	p.mustKubectl("", "label", "host", "host-1", "role=control-plane")
	cluster := strings.Replace(clusterOf(versions.Plane().Version, "machinePools: [{class: default-worker, name: pool, replicas: 4}]"), "    variables: [",
		"    variables: [{name: failureDomainLabel, value: rack}, {name: controlPlaneHostLabels, value: {role: control-plane}}, ", 1)
	p.up("--fast", "--hosts", "5", "-f", manifestOf(t, cluster))
	p.eventually("five nodes", all(readyNodes(5), poolReady(4)))
	p.apply("local", live.Workload+"---"+live.Budget+"---"+live.NodePort)
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	ofHost := func(host, field string) string {
		return p.mustKubectl("", "get", "host", host, "-o", "jsonpath={"+field+"}")
	}
	boots, addresses := map[string]string{}, []string{}
	for _, host := range append([]string{"host-1"}, workers...) {
		boots[host] = ofHost(host, ".status.bootID")
		addresses = append(addresses, ofHost(host, ".status.node.addresses[0]"))
	}

	// The drain of the first host lasts until its power is cut.
	p.apply("local", held)
	p.mustKubectl("local", "wait", "pod/held", "--for", "condition=Ready", live.Waits())
	prober := live.StartProber(t, p.Name, live.AskNodePort(addresses))
	begin := prober.AnswerAfter(t, time.Now())
	first := p.command("cluster", "reboot", "local", "--pool", "pool", "--reason", "a kernel").start()
	poll.True(t, "the first host drains", func() bool {
		return strings.HasPrefix(ofHost("host-3", ".status.observedOperation.step"), "reboot: drain")
	})
	p.must("host", "power-cycle", "host-3")
	p.mustKubectl("local", "delete", "pdb", "held")
	if err := first.interrupt(0, os.Interrupt); err == nil || !strings.Contains(first.stderr.String(), "the same command goes on") {
		t.Errorf("interrupted: %v\n%s", err, first.stderr.String())
	}
	t.Log(p.must("cluster", "reboot", "local", "--pool", "pool"))
	gap, failures := prober.LongestGap(begin)
	prober.End()
	t.Logf("the round took %s; the longest time without an answer was %s", time.Since(begin).Round(time.Second), gap)
	for _, f := range failures {
		t.Errorf("no node answered at %s: %v", f.Begin, f.Err)
	}
	started := map[string]string{}
	for _, host := range workers {
		started[host] = ofHost(host, ".status.observedOperation.startTime")
		if got := ofHost(host, ".spec.desired.reboots") + " " + ofHost(host, ".status.observedOperation.state"); got != "1 Succeeded" || ofHost(host, ".status.bootID") == boots[host] {
			t.Errorf("%s: %s, boot %s as before", host, got, boots[host])
		}
	}
	if a, b := max(started["host-3"], started["host-5"]), min(started["host-2"], started["host-4"]); a >= b {
		t.Errorf("rack b began at %s, and rack a until %s", b, a)
	}
	if ofHost("host-1", ".status.bootID") != boots["host-1"] {
		t.Error("the control plane is not of the pool, and was rebooted")
	}
	uncordoned := func(host, want string) {
		t.Helper()
		if got := p.mustKubectl("local", "get", "node", host, "-o", `jsonpath={.spec.unschedulable}{.metadata.annotations.slipway\.dev/cordoned-for}`); got != want {
			t.Errorf("Node %s: unschedulable is %q, want %q", host, got, want)
		}
	}
	for _, host := range workers {
		uncordoned(host, "")
	}

	p.mustKubectl("local", "cordon", "host-2")
	p.must("host", "reboot", "host-2", "--drain", "--timeout", "10m")
	uncordoned("host-2", "true")
	p.mustKubectl("local", "uncordon", "host-2")

	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	p.mustKubectl("local", "patch", "pdb", "echo", "--type", "merge", "-p", `{"spec":{"minAvailable":2}}`)
	holding := p.mustKubectl("local", "get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].spec.nodeName}")
	p.must("host", "reboot", holding, "--drain", "--timeout", "1s")
	poll.True(t, "the budget is named", func() bool {
		message := p.mustKubectl("", "get", "hostmachine", hostMachineOf(p, holding), "-o", `jsonpath={.status.conditions[?(@.type=="Rebooted")].reason} {.status.conditions[?(@.type=="Rebooted")].message}`)
		return strings.HasPrefix(message, "EvictionsRefused ") && strings.Contains(message, "default/echo-") && strings.Contains(message, "(held by a disruption budget since ")
	})
	before := ofHost(holding, ".status.bootID")
	p.must("host", "reboot", holding, "--timeout", "10m")
	if ofHost(holding, ".status.bootID") == before {
		t.Errorf("%s was not rebooted", holding)
	}
	uncordoned(holding, "")
}
