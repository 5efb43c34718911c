package clusterctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/test/live"
)

// A cluster of real kubelets that `slipway up` made goes to another plane and back while
// its workload is asked all the time. The steps build on each other.
func TestPivot(t *testing.T) {
	begin(t, 5)
	home := newLivePlane(t)
	home.up()
	away := newLivePlane(t)
	away.up("--beside", home.Name)

	p := &pivot{t: t, home: home}
	p.startWorkload()
	before := p.lives(t, home)
	if len(before) != 3 {
		t.Fatalf("%d hosts run, want 3: %v", len(before), before)
	}
	for _, step := range []struct {
		name string
		// at is the plane that has the cluster in the end.
		at  *livePlane
		run func()
	}{
		{"there, with the target killed meanwhile", away, func() {
			p.handOver(home, away)
			p.moveAndKill(home, away)
			p.arrived(away, home, 3)
		}},
		{"up once more where it came from", away, func() {
			home.up()
			if left := home.kubectl("", "get", "clusters,hosts", "-o", "name"); left != "" {
				p.t.Errorf("slipway up made %s a second time", left)
			}
		}},
		{"scale up there", away, func() {
			p.scale(away, 3)
			p.running(away, 4)
			before = p.lives(p.t, away)
		}},
		{"back", home, func() {
			p.handOver(away, home)
			away.follow("Between two planes", "clusterctl move", "$other", "--state-dir "+home.StateDir)
			p.arrived(home, away, 4)
		}},
		{"scale down", home, func() {
			p.scale(home, 2)
			p.running(home, 3)
			p.available(home, 1)
		}},
	} {
		lived := before
		if !t.Run(step.name, func(t *testing.T) {
			p.t, home.t, away.t = t, t, t
			begin := time.Now()
			step.run()
			p.answeredSince(begin)
			p.unharmed(step.at, lived)
			t.Logf("%.1fs", time.Since(begin).Seconds())
		}) {
			return
		}
	}
	p.t, home.t, away.t = t, t, t
	p.prober.End()
	home.kubectl("", "delete", "cluster", "local", live.Waits())
	p.available(home, 4)
}

// pivot is a cluster whose hosts are local ones of home.
type pivot struct {
	t      *testing.T
	home   *livePlane
	prober *live.Prober
}

func (p *pivot) startWorkload() {
	p.t.Helper()
	p.home.follow("The network of a cluster", "get kubeconfig", "demo -n NAMESPACE", "local -n default")
	if told, err := clientcmd.LoadFromFile(filepath.Join(p.home.home, "demo.kubeconfig")); err != nil || len(told.Clusters) != 1 {
		p.t.Errorf("clusterctl get kubeconfig writes %+v: %v", told, err)
	}
	workload := &user{t: p.t, kubeconfig: p.home.slipway("kubeconfig", "local")}
	workload.kubectl(strings.Join([]string{live.Workload, live.Budget, live.NodePort}, "---"), "apply", "-f", "-")
	workload.kubectl("", "rollout", "status", "deployment/echo", live.Waits())
	var addresses []string
	for _, h := range hosts(p.t, p.home) {
		for _, a := range h.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
				addresses = append(addresses, a.Address)
			}
		}
	}
	p.prober = live.StartProber(p.t, p.home.Name, live.AskNodePort(addresses))
	p.prober.AnswerAfter(p.t, time.Now())
}

// handOver has the agents prepare to go to another plane, as docs/clusterctl.md tells.
func (p *pivot) handOver(from, to *livePlane) {
	p.t.Helper()
	other := []string{"$other", "--state-dir " + to.StateDir}
	from.follow("Between two planes", "host token", other...)
	from.follow("Move", "create -f -", "NAMESPACE", "default")
	var claimed []string
	for name, h := range hosts(p.t, from) {
		if h.Spec.Claim != nil {
			claimed = append(claimed, "host/"+name)
		}
	}
	from.follow("Between two planes", "kubectl wait", "host/host-1 host/host-2 host/host-3", strings.Join(claimed, " "))
}

// moveAndKill kills the target as soon as the Cluster is there. clusterctl tries again for
// a while; should it give up, the move is begun anew, as docs/clusterctl.md tells.
func (p *pivot) moveAndKill(from, to *livePlane) {
	p.t.Helper()
	var status struct {
		Plane struct {
			PID int `json:"pid"`
		} `json:"plane"`
	}
	if err := json.Unmarshal([]byte(to.slipway("status", "-o", "json")), &status); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, stderr, err := from.try("move", "--to-kubeconfig", to.kubeconfig)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, stderr)
		}
		done <- err
	}()
	to.kubectl("", "wait", "cluster/local", "--for=create", live.Waits())
	live.Kill(p.t, status.Plane.PID)
	to.up()
	if err := <-done; err != nil {
		p.t.Logf("clusterctl gave up: %v", err)
		from.kubectl("", "patch", "cluster", "local", "--type", "merge", "-p", `{"spec":{"paused":null}}`)
		from.run("move", "--to-kubeconfig", to.kubeconfig)
	}
}

// arrived waits until everything runs at one plane and nothing is left at the other.
func (p *pivot) arrived(at, gone *livePlane, nodes int) {
	p.t.Helper()
	moved := time.Now()
	p.running(at, nodes)
	eventually(p.t, "every agent renews its Lease at "+at.Name, func(context.Context) error {
		for name := range hosts(p.t, at) {
			lease := coordinationv1.Lease{}
			if err := read(at.kubeconfig, &lease, "get", "lease", name); err != nil {
				return err
			}
			if renewed := lease.Spec.RenewTime; renewed == nil || !renewed.After(moved) {
				return fmt.Errorf("the Lease of %s was renewed at %v", name, renewed)
			}
		}
		return nil
	})
	eventually(p.t, gone.Name+" lets go", func(context.Context) error {
		if left := gone.kubectl("", "get", "hosts,leases,hostmachines,hostmachinepools,hostclusters,machines,machinepools,clusters", "-o", "name"); left != "" {
			return fmt.Errorf("it has %s", left)
		}
		return nil
	})
	gone.follow("Between two planes", "slipway $other status", "$other", "--state-dir "+at.StateDir)
	gone.follow("Between two planes", "delete secret")
}

// running waits until the cluster has that many nodes and a plane knows all of them.
func (p *pivot) running(at *livePlane, want int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%s has %d nodes", at.Name, want), func(context.Context) error {
		pools, machines := clusterv1.MachinePoolList{}, clusterv1.MachineList{}
		if err := read(at.kubeconfig, &pools, "get", "machinepools"); err != nil {
			return err
		}
		if err := read(at.kubeconfig, &machines, "get", "machines"); err != nil {
			return err
		}
		for _, m := range machines.Items {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("Machine %s is %s", m.Name, m.Status.Phase)
			}
		}
		if len(pools.Items) != 1 || len(pools.Items[0].Status.NodeRefs) != want-1 || len(machines.Items) != want {
			return fmt.Errorf("%d Machines, pools %+v", len(machines.Items), pools.Items)
		}
		for name, h := range hosts(p.t, at) {
			if h.Status.BootID == "" {
				return fmt.Errorf("the agent of %s has not reported", name)
			}
		}
		nodes := p.nodes(p.t, at)
		for name, n := range nodes {
			if !ready(n) {
				return fmt.Errorf("Node %s is not ready", name)
			}
		}
		if len(nodes) != want {
			return fmt.Errorf("%d Nodes", len(nodes))
		}
		return nil
	})
}

func ready(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// available waits until so many hosts can be claimed again.
func (p *pivot) available(at *livePlane, want int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d hosts are available", want), func(context.Context) error {
		available := 0
		for _, h := range hosts(p.t, at) {
			if h.Status.Phase == infrav1.HostPhaseAvailable && h.Spec.Claim == nil {
				available++
			}
		}
		if available != want {
			return fmt.Errorf("%d are", available)
		}
		return nil
	})
}

func (p *pivot) scale(at *livePlane, replicas int) {
	p.t.Helper()
	at.kubectl("", "patch", "cluster", "local", "--type", "json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/topology/workers/machinePools/0/replicas","value":%d}]`, replicas))
}

// answeredSince checks that the workload answered every time.
func (p *pivot) answeredSince(begin time.Time) {
	p.t.Helper()
	_, failures := p.prober.LongestGap(begin)
	for _, f := range failures {
		p.t.Errorf("the workload did not answer at %s: %v", f.Begin.UTC().Format(time.TimeOnly), f.Err)
	}
}

// unharmed checks that hosts run on as they did: all of those before, or all that are
// left of them.
func (p *pivot) unharmed(at *livePlane, before map[string]life) {
	p.t.Helper()
	after, same := p.lives(p.t, at), 0
	for name, was := range before {
		now, ok := after[name]
		if !ok {
			continue
		}
		same++
		if now != was {
			p.t.Errorf("%s was %+v and is %+v", name, was, now)
		}
	}
	if same != min(len(before), len(after)) {
		p.t.Errorf("hosts ran on %v and run on %v", before, after)
	}
}
