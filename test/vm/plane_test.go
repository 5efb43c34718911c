package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/live"
)

// weight of a machine in local hosts: it has two processors.
const weight = 2

// commandTakes bounds one command of slipway.
const commandTakes = 40 * time.Minute

// plane is the management cluster, driven through its command line.
type plane struct {
	live.Plane
	bin string
	// said is what the last command wrote to its standard error.
	said string
}

// worker is a Cluster whose only control plane is a local host, and whose workers, none at
// first, are machines.
var worker = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: local, namespace: default, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/16]}
  topology:
    classRef: {name: slipway-local}
    version: ` + olderVersion + `
    controlPlane: {replicas: 1}
    workers: {machinePools: [{class: default-worker, name: pool, replicas: 0}]}
    variables:
      - {name: controlPlaneEndpointHost, value: 10.88.0.200}
      - {name: workerHostLabels, value: {where: vm}}
`

// newPlane brings up a plane with local hosts, and a Cluster on them.
func newPlane(t *testing.T, hosts int, cluster string) *plane {
	t.Helper()
	p := &plane{Plane: live.New(t), bin: binaries()}
	live.Turn(t, hosts+weight)
	t.Cleanup(func() {
		if t.Failed() {
			p.dump(t)
		}
		if out, err := p.run("down", "--purge", "--yes"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p.must(t, append([]string{"up", "--fast", "--hosts", strconv.Itoa(hosts), "-f", file}, p.Flags()...)...)
	t.Logf("slipway up: %.1fs", time.Since(begin).Seconds())
	return p
}

// run runs slipway and returns what it printed.
func (p *plane) run(args ...string) (string, error) {
	return p.exec(filepath.Join(p.bin, "slipway"), nil, append([]string{"--state-dir", p.StateDir}, args...)...)
}

func (p *plane) exec(program string, environ []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTakes)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(p.Environ(), environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	p.said = stderr.String()
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, p.said)
	}
	return stdout.String(), nil
}

func (p *plane) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.run(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectl against the plane, or against a workload cluster when one is named.
func (p *plane) kubectl(cluster string, args ...string) (string, error) {
	kubeconfig := []string{"kubeconfig"}
	if cluster != "" {
		kubeconfig = append(kubeconfig, cluster)
	}
	path, err := p.run(kubeconfig...)
	if err != nil {
		return "", err
	}
	return p.exec(filepath.Join(p.bin, "kubectl"), []string{"KUBECONFIG=" + strings.TrimSpace(path)}, args...)
}

// eventually waits until kubectl prints what is wanted.
func (p *plane) eventually(t *testing.T, limit time.Duration, what, want, cluster string, args ...string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(lookEvery) {
		got, err := p.kubectl(cluster, args...)
		if err == nil && got == want {
			t.Logf("%s: %.1fs", what, time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("%s: not after %s: kubectl %s prints %q (%v), want %q", what, limit, strings.Join(args, " "), got, err, want)
		}
	}
}

// scale sets the number of workers of the Cluster.
func (p *plane) scale(t *testing.T, workers int) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/topology/workers/machinePools/0/replicas", "value": %d}]`, workers)
	if out, err := p.kubectl("", "patch", "cluster", "local", "--type=json", "-p", patch); err != nil {
		t.Fatal(err, out)
	}
}

// addedMachine is what `slipway host add -o json` promises for a machine.
type addedMachine struct {
	Name, State, Step, Reason, Message, Remedy string
	Seconds                                    float64
}

// add runs `slipway host add` for the machine.
func (p *plane) add(t *testing.T, address string, m *Machine, args ...string) addedMachine {
	t.Helper()
	out, err := p.run(append([]string{"host", "add", address, "--identity-file", m.IdentityFile, "--known-hosts", m.KnownHosts,
		"--host-bundle", filepath.Join(p.bin, "hostbundle"), "--public-key", filepath.Join(p.bin, "hostbundle.pub"), "--timeout", addTakes.String(), "-o", "json"}, args...)...)
	var machines []addedMachine
	if json.Unmarshal([]byte(out), &machines) != nil || len(machines) != 1 {
		t.Fatalf("host add: %v\n%s", err, out)
	}
	if (err == nil) != (machines[0].State != "Failed") {
		t.Errorf("host add ends with %v, and says %+v", err, machines[0])
	}
	t.Logf("host add: %+v\n%s", machines[0], p.said)
	return machines[0]
}

// servesPods puts the name servers of a cluster onto a node, and has its API server reach them
// through the network of pods. They go where they were before.
func (p *plane) servesPods(t *testing.T, cluster, node string) {
	t.Helper()
	// An API server in an emulator may not answer for a while, and kubectl gives up then.
	for _, try := range []struct {
		what, want string
		limit      time.Duration
		args       []string
	}{
		{"name servers belong onto the node", "", availableTakes, moveNameServers(`"` + node + `"`)},
		{"they are there", "successfully rolled out", readyTakes, []string{"rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout", readyTakes.String()}},
		{"the API server reaches them", "coredns_build_info", availableTakes, []string{"get", "--raw", "/api/v1/namespaces/kube-system/services/kube-dns:9153/proxy/metrics"}},
		{"they go where they were", "", availableTakes, moveNameServers("null")},
	} {
		for begin := time.Now(); ; time.Sleep(lookEvery) {
			out, err := p.kubectl(cluster, try.args...)
			if err == nil && strings.Contains(out, try.want) {
				break
			}
			if time.Since(begin) > try.limit {
				t.Fatalf("pods on %s: %s: not after %s: %v\n%s", node, try.what, try.limit, err, out)
			}
		}
	}
}

// moveNameServers has kubectl change on which node the name servers of a cluster run.
func moveNameServers(node string) []string {
	return []string{"patch", "deployment", "coredns", "-n", "kube-system", "--type=merge", "-p",
		`{"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": ` + node + `}}}}}`}
}

// dump shows what an operator would look at.
func (p *plane) dump(t *testing.T) {
	for _, cluster := range []string{"", "local", "second"} {
		for _, args := range [][]string{{"get", "machine,hostmachine,host", "-A", "-o", "wide"}, {"get", "node,pod", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
			out, err := p.kubectl(cluster, args...)
			t.Logf("kubectl %s, cluster %q (%v)\n%s", strings.Join(args, " "), cluster, err, out[max(0, len(out)-8<<10):])
		}
	}
	data, _ := os.ReadFile(filepath.Join(p.StateDir, "plane.log"))
	t.Logf("the plane's log\n%s", data[max(0, len(data)-8<<10):])
}
