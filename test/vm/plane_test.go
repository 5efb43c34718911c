package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/test/live"
)

// weight of the test in local hosts: one of them, and a machine, which has two processors.
const weight = 3

// commandTakes bounds one command of slipway.
const commandTakes = 40 * time.Minute

// plane is the management cluster, driven through its command line.
type plane struct {
	live.Plane
	bin string
	// said is what the last command wrote to its standard error.
	said string
}

// workerless is a Cluster whose only control plane is a local host.
const workerless = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: local, namespace: default, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/16]}
  topology:
    classRef: {name: slipway-local}
    version: v1.36.3
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: default-worker, name: md, replicas: 0}]}
    variables: [{name: controlPlaneEndpointHost, value: 10.88.0.200}]
`

// newPlane brings up a plane with one local host, and a Cluster on it unless that is empty.
func newPlane(t *testing.T, cluster string) *plane {
	t.Helper()
	p := &plane{Plane: live.New(t), bin: os.Getenv("SLIPWAY_BIN")}
	live.Turn(t, weight)
	t.Cleanup(func() {
		if t.Failed() {
			p.dump(t)
		}
		if out, err := p.run("down", "--purge"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	args := append([]string{"up", "--fast", "--hosts", "1"}, p.Flags()...)
	if cluster == "" {
		args = append(args, "--no-cluster")
	} else {
		file := filepath.Join(t.TempDir(), "cluster.yaml")
		if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", file)
	}
	begin := time.Now()
	p.must(t, args...)
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
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": %d}]`, workers)
	if out, err := p.kubectl("", "patch", "cluster", "local", "--type=json", "-p", patch); err != nil {
		t.Fatal(err, out)
	}
}

// dump shows what an operator would look at.
func (p *plane) dump(t *testing.T) {
	for _, cluster := range []string{"", "local"} {
		for _, args := range [][]string{{"get", "machine,hostmachine,host", "-A", "-o", "wide"}, {"get", "node,pod", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
			out, err := p.kubectl(cluster, args...)
			t.Logf("kubectl %s, cluster %q (%v)\n%s", strings.Join(args, " "), cluster, err, out[max(0, len(out)-8<<10):])
		}
	}
	data, _ := os.ReadFile(filepath.Join(p.StateDir, "plane.log"))
	t.Logf("the plane's log\n%s", data[max(0, len(data)-8<<10):])
}
