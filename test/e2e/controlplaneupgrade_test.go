package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// inPlaceCluster has three control planes that must not be replaced.
func inPlaceCluster(version string) string {
	return `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: local, namespace: default, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}}
  topology:
    classRef: {name: slipway-local}
    version: ` + version + `
    controlPlane: {replicas: 3, metadata: {annotations: {infrastructure.slipway.dev/in-place-updates: Required}}}
    variables: [{name: controlPlaneEndpointHost, value: ` + virtualIP + `}]
`
}

// TestControlPlaneInPlace takes three control planes from each version to the next on their three
// hosts, by KubeadmControlPlane as it is, while one of the hosts loses its power in the
// middle.
func TestControlPlaneInPlace(t *testing.T) {
	if os.Getenv("SLIPWAY_TEST_CONTROL_PLANE") == "" {
		t.Skip("takes minutes: `make test-control-plane-in-place` runs it")
	}
	for _, pair := range versions.Pairs() {
		t.Run(pair.String(), func(t *testing.T) { controlPlaneInPlace(t, pair.From.Version, pair.To) })
	}
}

func controlPlaneInPlace(t *testing.T, from string, target versions.Kubernetes) {
	to := target.Version
	p := newPlane(t, 3)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(inPlaceCluster(from)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.up("--fast", "--hosts", "3", "-f", file)
	p.eventually("three nodes of "+from, all(readyNodes(3), nodesOf(from, 3)))
	p.mustKubectl("", "label", "namespace", "default", "infrastructure.slipway.dev/in-place-updates=enabled")
	kcp := strings.TrimSpace(p.mustKubectl("", "get", "kubeadmcontrolplane", "-o", "name"))
	// There is no fourth host.
	p.mustKubectl("", "patch", kcp, "--type", "merge", "-p", `{"spec":{"rollout":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0}}}}}`)
	before := identities(p)
	prober := live.StartProber(t, p.Name, live.AskAPIServer(p.endpoint))
	begin := time.Now()
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"topology":{"version":"`+to+`"}}}`)

	host := awaitControlPlaneStep(p, "upgrade: kubeadm")
	p.t.Logf("cutting the power of %s after %.0fs", host, time.Since(begin).Seconds())
	p.must("host", "power-cycle", host)
	p.eventually("three nodes of "+to+", each up to date", all(readyNodes(3), nodesOf(to, 3), func(status) string {
		return differs("3 3 3", p.mustKubectl("", "get", kcp, "-o", "jsonpath={.status.replicas} {.status.upToDateReplicas} {.status.readyReplicas}"))
	}))
	took := time.Since(begin)
	prober.AnswerAfter(t, time.Now())
	gap, failures := prober.LongestGap(begin)
	t.Logf("took %.0fs; the longest time without an answer was %.1fs, %d attempts failed", took.Seconds(), gap.Seconds(), len(failures))
	// Once for the power cut, six times as long beside other tests; docs/ha.md has the sum.
	if limit := 6 * 2 * takeOverLimit; gap > limit {
		t.Errorf("the API was away for %s, longer than %s", gap, limit)
	}
	if after := identities(p); !slices.Equal(before, after) {
		t.Errorf("machines and nodes were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	for _, m := range controlPlanes(p) {
		upgradedControlPlane(p, m.host(), target)
	}
}

// identities tell Machines, their hosts and Nodes from any others.
func identities(p *plane) []string {
	p.t.Helper()
	var all []string
	for _, m := range controlPlanes(p) {
		all = append(all, m.Metadata.Name+" "+m.Metadata.UID+" "+m.Spec.ProviderID)
	}
	all = append(all, strings.Split(p.mustKubectl("local", "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`), "\n")...)
	slices.Sort(all)
	return all
}

// upgradedControlPlane looks at the host itself: each static pod is of the new version, and
// what is left is a snapshot of the old etcd.
func upgradedControlPlane(p *plane, host string, target versions.Kubernetes) {
	p.t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(sandboxOf(p, host)), "root")
	state, err := journal.Read(filepath.Join(dir, "var/lib/slipway-agent/journal"))
	if err != nil {
		p.t.Fatal(err)
	}
	if state.ControlPlaneUpgrade != nil || state.EtcdSnapshot == nil {
		p.t.Fatalf("%s: record %+v, snapshot %+v", host, state.ControlPlaneUpgrade, state.EtcdSnapshot)
	}
	info, err := os.Stat(filepath.Join(dir, state.EtcdSnapshot.Path))
	if err != nil || info.Size() != state.EtcdSnapshot.Size || info.Mode().Perm() != 0o600 {
		p.t.Errorf("%s: the snapshot is %+v: %v", host, info, err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "var/log/slipway-agent.log"))
	if err != nil || len(log) == 0 || strings.Contains(string(log), "cannot be tried before the upgrade") {
		p.t.Errorf("%s: not all static pods were tried: %v\n%s", host, err, log)
	}
	for component, image := range map[string]string{
		"kube-apiserver": target.Version, "kube-controller-manager": target.Version, "kube-scheduler": target.Version,
		"etcd": strings.TrimPrefix(target.Etcd, "v") + "-0",
	} {
		data, err := os.ReadFile(filepath.Join(dir, "etc/kubernetes/manifests", component+".yaml"))
		if err != nil || !strings.Contains(string(data), "/"+component+":"+image+"\n") {
			p.t.Errorf("%s: the manifest of %s is not of %s: %v\n%s", host, component, image, err, data)
		}
	}
}

// awaitControlPlaneStep waits until some host of the control plane is at a step, and returns it.
func awaitControlPlaneStep(p *plane, step string) string {
	p.t.Helper()
	said := map[string]string{}
	for ctx := p.context(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		for i := range 3 {
			host := fmt.Sprintf("host-%d", i+1)
			state, err := journal.Read(filepath.Join(p.StateDir, "hosts", host, "var/lib/slipway-agent/journal"))
			if err != nil {
				p.t.Fatal(err)
			}
			o := state.Operation
			if o == nil {
				continue
			}
			if said[host] != o.Step+o.Message {
				said[host] = o.Step + o.Message
				p.t.Logf("%s: %s %s %s", host, o.Phase, o.Step, o.Message)
			}
			switch {
			case o.Step == step && o.Active:
				return host
			case o.State == infrav1.OperationFailed:
				p.t.Fatalf("%s: %s at %s: %s", host, o.Reason, o.Step, o.Message)
			}
		}
	}
	p.t.Fatalf("no host comes to step %q", step)
	return ""
}
