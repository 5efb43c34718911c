package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// rackSpread are four pods of which no rack has more than one more than another. Nodes without a zone get none.
const rackSpread = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: spread}
spec:
  replicas: 4
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}
      containers:
      - {name: echo, image: slipway.dev/echo:v1, imagePullPolicy: Never}
`

// TestNodesKnowTheirHosts has the Nodes of two racks say where they are and what their hosts have, and pods spread by it.
func TestNodesKnowTheirHosts(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, 4)
	p.up("--fast", "--no-cluster", "--hosts", "4")
	racks := map[string]string{"host-1": "a", "host-2": "a", "host-3": "a", "host-4": "b"}
	for host, rack := range racks {
		p.mustKubectl("", "label", "host", host, "rack="+rack, "disk=nvme-"+host, "owner=team-1", "topology.kubernetes.io/region=cellar")
	}
	p.mustKubectl("", "label", "host", "host-1", "role=control-plane")
	cluster := strings.Replace(clusterOf(versions.Plane().Version, "machinePools: [{class: default-worker, name: pool, replicas: 3}]"), "    variables: [",
		"    variables: [{name: failureDomainLabel, value: rack}, {name: controlPlaneHostLabels, value: {role: control-plane}}, {name: nodeLabels, value: [disk, hardware.infrastructure.slipway.dev/architecture, REFUSED]}, ", 1)
	p.up("--fast", "--hosts", "4", "-f", manifestOf(t, strings.Replace(cluster, ", REFUSED", "", 1)))
	p.eventually("four nodes", all(readyNodes(4), poolReady(3)))
	if out, err := p.kubectl("", "apply", "--dry-run=server", "-f", manifestOf(t, strings.Replace(cluster, "REFUSED", "node-restriction.kubernetes.io/x", 1))); err == nil ||
		!strings.Contains(out, "nodeLabels") || !strings.Contains(out, "a kubelet gives its Node no such label") {
		t.Errorf("a label that NodeRestriction refuses: %v", err)
	}

	for host, rack := range racks {
		want := map[string]string{"topology.kubernetes.io/zone": rack, "topology.kubernetes.io/region": "cellar", "disk": "nvme-" + host, "owner": "",
			"hardware.infrastructure.slipway.dev/architecture": p.mustKubectl("", "get", "host", host, "-o", "jsonpath={.status.inventory.architecture}")}
		got := map[string]string{}
		for key := range want {
			got[key] = p.mustKubectl("local", "get", "node", host, "-o", "jsonpath={.metadata.labels."+strings.ReplaceAll(key, ".", `\.`)+"}")
		}
		if !maps.Equal(got, want) {
			t.Errorf("Node %s has the labels %v, want %v", host, got, want)
		}
	}
	p.apply("local", rackSpread)
	p.mustKubectl("local", "rollout", "status", "deployment/spread", live.Waits())
	pods := map[string]int{}
	for _, node := range strings.Fields(p.mustKubectl("local", "get", "pods", "-l", "app=spread", "-o", "jsonpath={.items[*].spec.nodeName}")) {
		pods[racks[node]]++
	}
	if want := map[string]int{"a": 2, "b": 2}; !maps.Equal(pods, want) {
		t.Errorf("pods by rack are %v, want %v", pods, want)
	}

	const worker = "host-4"
	// Whoever is root on a host labels its own Node, as anywhere, and no other one.
	for other := range racks {
		out, err := p.run("host", "shell", worker, "--", "kubectl", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "label", "node", other, "disk=other", "--overwrite")
		if (err == nil) != (other == worker) {
			t.Errorf("%s labels Node %s: %v\n%s", worker, other, err, out)
		}
	}
	rebootRequired(t, p, worker)
}

// rebootRequired has an update of a host's operating system ask for a reboot, and reboots the host.
func rebootRequired(t *testing.T, p *plane, host string) {
	t.Helper()
	p.must("host", "shell", host, "--", "sh", "-c", "echo linux-image-amd64 >/run/reboot-required.pkgs; touch /run/reboot-required")
	packages := func(want string) func() bool {
		return func() bool {
			return p.mustKubectl("", "get", "host", host, "-o", "jsonpath={.status.rebootRequired.packages}") == want
		}
	}
	poll.True(t, host+" asks for a reboot", packages(`["linux-image-amd64"]`))
	if out, err := p.run("doctor"); !strings.Contains(out, "RebootRequired") || !strings.Contains(out, "slipway host reboot "+host+" --drain") {
		t.Errorf("doctor says %v\n%s", err, out)
	}
	if out := p.must("host", "list", host, "-o", "wide"); !strings.Contains(out, "required for") || !strings.Contains(out, "Running") {
		t.Errorf("host list shows\n%s", out)
	}
	p.must("host", "reboot", host)
	poll.True(t, host+" asks for no reboot", packages(""))
	p.eventually("four nodes", readyNodes(4))
}

func manifestOf(t *testing.T, manifest string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
