package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
	"github.com/slipway-dev/slipway/test/live"
)

// poolHealthCheck looks at the machines of the pool.
const poolHealthCheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: pool, namespace: default}
spec:
  clusterName: local
  selector: {matchExpressions: [{key: cluster.x-k8s.io/pool-name, operator: Exists}]}
  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 5}]}
`

// TestPool upgrades a cluster with a pool from each version to the next, under a workload that is
// asked all the time, and cuts the power of a host on the way. One of them then has a health check
// replace a dead host, and adopts a node that an operator joined by hand.
func TestPool(t *testing.T) {
	level.Deep(t)
	for _, pair := range versions.Pairs() {
		t.Run(pair.String(), func(t *testing.T) { poolOf(t, pair) })
	}
}

func poolOf(t *testing.T, pair versions.Pair) {
	from, to := pair.From.Version, pair.To.Version
	p := newPlane(t, 4)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(clusterOf(from, "machinePools: [{class: default-worker, name: pool, replicas: 2}]")), 0o600); err != nil {
		t.Fatal(err)
	}
	// One host is spare: for the surge, and in place of a dead one.
	p.up("--fast", "--hosts", "4", "-f", file)
	p.eventually("three nodes of "+from, all(readyNodes(3), poolReady(2), nodesOf(from, 3)))
	p.apply("local", live.Workload+"---"+live.Budget+"---"+live.NodePort)
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())

	for _, step := range []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"a rolling upgrade and a power cut in mid join cost the workload nothing", func(t *testing.T, p *plane) { rollingUpgrade(t, p, to) }},
		{"a health check has a dead host replaced", deadHost},
		{"a node that was joined by hand is adopted", adoption},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			q := *p
			q.t = t
			step.run(t, &q)
		}) {
			return
		}
		if pair != versions.ToPlane() {
			return
		}
	}
}

func rollingUpgrade(t *testing.T, p *plane, to string) {
	prober := live.StartProber(t, p.Name, anyNode(p))
	begin := prober.AnswerAfter(t, time.Now())
	p.mustKubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"topology":{"version":"`+to+`"}}}`)
	host := joining(t, p)
	p.must("host", "power-cycle", host)
	machine := hostMachineOf(p, host)
	if !strings.HasPrefix(machine, "local-pool-") {
		t.Fatalf("the power of %s was cut, which is of %s", host, machine)
	}
	// The control plane is done, and maxUnavailable is 0: there are never fewer nodes.
	p.eventually("pool of "+to, all(atLeastReady(p, 3), oneServes(p), nodesOf(to, 3), readyNodes(3), poolReady(2)))
	if now := hostMachineOf(p, host); now != machine {
		t.Errorf("%s was of %s when its power was cut, and is of %q", host, machine, now)
	}
	log, err := os.ReadFile(filepath.Join(p.StateDir, "hosts", host, "var/log/slipway-agent.log"))
	if err != nil || !strings.Contains(string(log), "resuming an interrupted operation") {
		t.Errorf("the power of %s was cut too late: nothing was interrupted (%v)", host, err)
	}
	_, failures := prober.LongestGap(begin)
	for _, f := range failures {
		t.Errorf("the Service did not answer at %s: %v", f.Begin.UTC().Format(time.TimeOnly), f.Err)
	}
	prober.End()
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
}

// joining waits until kubeadm joins a host of the pool, and stops it there: it may be done
// before the command that cuts the power has begun, on a machine with other work. The first
// host it joins is the new control plane's.
func joining(t *testing.T, p *plane) string {
	t.Helper()
	controlPlane, joins := "", ""
	poll.True(t, "kubeadm joins a host of the pool", func() bool {
		for _, pid := range p.ProcessesOn("[^/]+", "kubeadm") {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			host := regexp.MustCompile("/" + p.Name + "/([^/\n]+)").FindStringSubmatch(string(groups))
			switch {
			case host == nil || !strings.Contains(string(command), "\x00join\x00"):
			case controlPlane == "":
				controlPlane = host[1]
			case controlPlane != host[1]:
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					continue // it was quicker; another host comes
				}
				joins = host[1]
				return true
			}
		}
		return false
	})
	return joins
}

// atLeastReady fails the test when fewer nodes than n are ready.
func atLeastReady(p *plane, n int) func(status) string {
	return func(s status) string {
		ready := 0
		for _, node := range s.Clusters[0].Nodes {
			if node.Ready {
				ready++
			}
		}
		// No node at all is no news: the cluster did not answer.
		if len(s.Clusters[0].Nodes) > 0 && ready < n {
			p.t.Errorf("only %d nodes are ready: %+v", ready, s.Clusters[0].Nodes)
		}
		return ""
	}
}

// anyNode asks all hosts for the workload, by their IPv4 addresses.
func anyNode(p *plane) func() error {
	var addresses []string
	for _, h := range p.status().Hosts {
		addresses = append(addresses, h.Addresses[:min(1, len(h.Addresses))]...)
	}
	return live.AskNodePort(addresses)
}

// deadHost switches a host of the pool off for good. The spare one takes its place, and
// when it comes back it gives up its claim and never is a node again.
func deadHost(t *testing.T, p *plane) {
	dead := aWorker(p)
	machine := hostMachineOf(p, dead)
	p.apply("", poolHealthCheck)
	p.must("host", "power-off", dead)
	p.eventually("the spare host took over", all(readyNodes(3), poolReady(2), withoutNode(dead), func(status) string {
		return differs("", p.mustKubectl("", "get", "machine", machine, "--ignore-not-found", "-o", "name"))
	}))
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())

	p.must("host", "power-on", dead)
	p.eventually("the dead host is back and clean", func(s status) string {
		if why := withoutNode(dead)(s); why != "" {
			t.Error(why)
		}
		for _, h := range s.Hosts {
			if h.Name == dead {
				return differs("Available ", fmt.Sprintf("%s %s", h.Phase, h.ClaimedBy))
			}
		}
		return "the host is not listed"
	})
}

func withoutNode(name string) func(status) string {
	return func(s status) string {
		for _, node := range s.Clusters[0].Nodes {
			if node.Name == name {
				return fmt.Sprintf("there is a Node %s: %+v", name, node)
			}
		}
		return ""
	}
}
