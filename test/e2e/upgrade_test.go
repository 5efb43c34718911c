package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// older is the version from which tests with one upgrade come to current: that of the plane, which the gate builds.
var (
	older   = versions.ToPlane().From.Version
	current = versions.Plane().Version
)

// clusterOf is a cluster of a version with the workers given.
func clusterOf(version, workers string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: local, namespace: default, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/16]}
  topology:
    classRef: {name: slipway-local}
    version: ` + version + `
    controlPlane: {replicas: 1}
    workers: {` + workers + `}
    variables: [{name: controlPlaneEndpointHost, value: 10.88.0.200}]
`
}

// deferred are two workers whose upgrade is put off, so that the test can request it.
const deferred = `machineDeployments: [{class: default-worker, name: md, replicas: 2, metadata: {annotations: {topology.cluster.x-k8s.io/defer-upgrade: ""}}}]`

// TestUpgradeInPlace takes a worker from each version to the next without a new Machine and
// reboots it, then another one that loses its power on the way.
func TestUpgradeInPlace(t *testing.T) {
	level.Deep(t)
	for _, pair := range versions.Pairs() {
		t.Run(pair.String(), func(t *testing.T) { upgradeInPlace(t, pair.From.Version, pair.To.Version) })
	}
}

func upgradeInPlace(t *testing.T, from, to string) {
	p := newPlane(t, 4)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(clusterOf(from, deferred)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.up("--fast", "--hosts", "4", "-f", file)
	p.eventually("three nodes of "+from, all(readyNodes(3), nodesOf(from, 3)))

	// A kubelet must not be newer than its API server.
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"topology":{"version":"`+to+`"}}}`)
	p.eventually("control plane of "+to, all(readyNodes(3), nodesOf(to, 1)))
	p.apply("local", live.Workload+"---"+live.Budget)
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())

	worker := workerOf(p, from)
	machine := hostMachineOf(p, worker)
	refusedBeforeTheDrain(p, worker, machine, from, to)
	before := p.mustKubectl("", "get", "machine", machine, "-o", "jsonpath={.metadata.uid} {.spec.providerID}")
	p.mustKubectl("", "patch", "hostmachine", machine, "--type", "merge", "-p", `{"spec":{"version":"`+to+`"}}`)
	p.eventually("worker of "+to, all(oneServes(p), func(status) string {
		return differs(to+" True", p.mustKubectl("", "get", "hostmachine", machine, "-o",
			`jsonpath={.status.version} {.status.conditions[?(@.type=="UpToDate")].status}`))
	}))
	p.eventually("the node serves again", all(readyNodes(3), nodesOf(to, 2), oneServes(p)))
	if got := p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.spec.unschedulable}{.metadata.annotations.slipway\\.dev/cordoned-for}"); got != "" {
		t.Errorf("the Node is left cordoned: %q", got)
	}
	if after := p.mustKubectl("", "get", "machine", machine, "-o", "jsonpath={.metadata.uid} {.spec.providerID}"); after != before {
		t.Errorf("the Machine was %s and is %s", before, after)
	}
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())

	rebooted(p, worker, machine)
	upgradedThroughAPowerCut(p, from, to)
}

// refusedBeforeTheDrain gives the kubelet a feature gate that its version takes and the next does not know. The
// upgrade fails before the Node is even cordoned; without the gate, a reboot tries it again.
func refusedBeforeTheDrain(p *plane, worker, machine, from, to string) {
	p.t.Helper()
	flags := func(script string) {
		p.must("host", "shell", worker, "--", "sh", "-c", script+" /var/lib/kubelet/kubeadm-flags.env && systemctl restart kubelet")
	}
	gone := goneGate(p.t, from, to)
	gate := "--feature-gates=" + gone + "=true "
	flags(`sed -i 's/ARGS="/ARGS="` + gate + `/'`)
	p.eventually("the kubelet takes the gate", nodeReady(worker, true))
	p.mustKubectl("", "patch", "hostmachine", machine, "--type", "merge", "-p", `{"spec":{"version":"`+to+`"}}`)
	p.eventually("the upgrade is refused", func(status) string {
		message := p.mustKubectl("", "get", "hostmachine", machine, "-o", `jsonpath={.status.conditions[?(@.type=="UpToDate")].message}`)
		if !strings.Contains(message, "the kubelet of "+to+" would not start") || !strings.Contains(message, "unrecognized feature gate: "+gone) {
			return "UpToDate says " + message
		}
		return ""
	})
	events := p.mustKubectl("local", "get", "events", "-A", "--field-selector", "involvedObject.kind=Node,involvedObject.name="+worker+",reason=NodeNotSchedulable", "-o", "name")
	node := p.mustKubectl("local", "get", "node", worker, "-o", `jsonpath={.spec.unschedulable} {.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.kubeletVersion}`)
	if events != "" || node != " True "+from {
		p.t.Errorf("the Node is %q, events of a cordon: %q", node, events)
	}
	flags(`sed -i 's/` + gate + `//'`)
	p.mustKubectl("", "patch", "hostmachine", machine, "--type", "merge", "-p", `{"spec":{"reboots":1}}`)
}

// goneGate is a feature gate that is always on in one version, and unknown to the next.
func goneGate(t *testing.T, from, to string) string {
	t.Helper()
	gates := func(version string) map[string]string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("SLIPWAY_BIN"), "bundle/kubernetes", version, "hyperkube"), "describe").Output()
		var said struct{ FeatureGates map[string]string }
		if err == nil {
			err = json.Unmarshal(out, &said)
		}
		if err != nil {
			t.Fatal(err)
		}
		return said.FeatureGates
	}
	known := gates(to)
	for gate, stage := range gates(from) {
		if _, is := known[gate]; !is && stage == "GA" {
			return gate
		}
	}
	t.Fatalf("%s knows all gates of %s", to, from)
	return ""
}

// upgradedThroughAPowerCut cuts the power of the other worker while it is upgraded.
func upgradedThroughAPowerCut(p *plane, from, to string) {
	p.t.Helper()
	worker := workerOf(p, from)
	machine := hostMachineOf(p, worker)
	p.mustKubectl("", "patch", "hostmachine", machine, "--type", "merge", "-p", `{"spec":{"version":"`+to+`"}}`)
	p.t.Logf("cutting the power during step %q", awaitSwitch(p, worker))
	p.must("host", "power-cycle", worker)
	p.eventually("upgraded in spite of the power cut", all(readyNodes(3), nodesOf(to, 3), func(status) string {
		return differs("True, schedulable ", p.mustKubectl("", "get", "hostmachine", machine, "-o", `jsonpath={.status.conditions[?(@.type=="UpToDate")].status}`)+
			", schedulable "+p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.spec.unschedulable}"))
	}))
}

// awaitSwitch waits until a host leaves its old version behind. It looks into the
// journal: on an idle machine these steps together take less than the second for
// which the agent keeps reports back.
func awaitSwitch(p *plane, host string) string {
	p.t.Helper()
	file := filepath.Join(p.StateDir, "hosts", host, "var/lib/slipway-agent/journal")
	for ctx := p.context(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		state, err := journal.Read(file)
		if err != nil {
			p.t.Fatal(err)
		}
		if o := state.Operation; o != nil && slices.Contains([]string{"upgrade: kubeadm", "upgrade: switch", "upgrade: kubelet", "upgrade: ready"}, o.Step) {
			return o.Step
		}
	}
	p.t.Fatalf("%s does not come to leave its old version", host)
	return ""
}

// rebooted requests a reboot and waits until the host and its node are back.
func rebooted(p *plane, worker, machine string) {
	p.t.Helper()
	boot := func() string {
		return p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.status.nodeInfo.bootID}")
	}
	before := boot()
	p.mustKubectl("", "patch", "hostmachine", machine, "--type", "merge", "-p", `{"spec":{"reboots":2}}`)
	p.eventually("rebooted and ready", all(nodeReady(worker, true), func(status) string {
		if now := boot(); now == before {
			return "the Node still tells the boot ID " + before
		}
		return differs("True Running", p.mustKubectl("", "get", "hostmachine", machine, "-o", `jsonpath={.status.conditions[?(@.type=="Rebooted")].status}`)+
			" "+p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.phase}"))
	}))
}

func differs(want, got string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %q, want %q", got, want)
}

// nodesOf says what is missing to n nodes of a version.
func nodesOf(version string, n int) func(status) string {
	return func(s status) string {
		have := 0
		for _, node := range s.Clusters[0].Nodes {
			if node.Version == version {
				have++
			}
		}
		return differs(fmt.Sprintf("%d of %s", n, version), fmt.Sprintf("%d of %s", have, version))
	}
}

// oneServes fails the test when the workload has no pod that is available.
func oneServes(p *plane) func(status) string {
	return func(status) string {
		p.t.Helper()
		available := p.mustKubectl("local", "get", "deployment", "echo", "-o", "jsonpath={.status.availableReplicas}")
		if available == "" || available == "0" {
			p.t.Error("the workload lost all its replicas")
		}
		return ""
	}
}

// workerOf is the name of a host whose Node is of the version.
func workerOf(p *plane, version string) string {
	p.t.Helper()
	for _, node := range p.status().Clusters[0].Nodes {
		if node.Version == version {
			return node.Name
		}
	}
	p.t.Fatalf("no node of %s", version)
	return ""
}

func hostMachineOf(p *plane, host string) string {
	p.t.Helper()
	return p.mustKubectl("", "get", "host", host, "-o", "jsonpath={.spec.claim.machineName}")
}
