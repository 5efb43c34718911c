package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
	"github.com/slipway-dev/slipway/test/monitoring"
)

// TestUp is the life of a plane as the README tells it.
func TestUp(t *testing.T) {
	p := newPlane(t, 4)
	before := p.Look(t, p.bin)
	p.up("--fast")

	steps := []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"three nodes are ready", threeNodes},
		{"columns are meaningful", columns},
		{"pods on different nodes reach each other by Service name", service},
		{"scaling the pool up adds a node", scaleUp},
		{"scaling the pool down drains a node and returns its host clean", scaleDown},
		{"nothing has warned so far", noWarnings},
		{"a power-cycled host comes back", powerCycle},
		{"the dashboards have data", dashboardsHaveData},
		{"a cut link makes a node not ready, healing it mends that", cutAndHeal},
		{"kill -9 of the plane loses nothing", killPlane},
		{"down, a backup restored, and up again goes on with the same cluster", downAndUp},
		{"deleting the Cluster returns every host", deleteCluster},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			q := *p
			q.t = t
			step.run(t, &q)
		}) {
			return
		}
	}
	p.must("down", "--purge", "--yes")
	before.AssertUnchanged(t)
	if _, err := os.Stat(p.StateDir); !os.IsNotExist(err) {
		t.Errorf("the state directory is still there after down --purge: %v", err)
	}
}

// readyNodes says what is missing to n ready nodes of the first cluster.
func readyNodes(n int) func(status) string {
	return func(s status) string {
		if len(s.Clusters) != 1 {
			return fmt.Sprintf("%d clusters", len(s.Clusters))
		}
		ready := 0
		for _, node := range s.Clusters[0].Nodes {
			if node.Ready {
				ready++
			}
		}
		if ready != n || len(s.Clusters[0].Nodes) != n {
			return fmt.Sprintf("%d of %d nodes ready, want %d; waiting for %v", ready, len(s.Clusters[0].Nodes), n, s.Clusters[0].Waiting)
		}
		return ""
	}
}

// poolReady says what is missing to a settled pool of n.
func poolReady(n int) func(status) string {
	return func(s status) string {
		for _, pool := range s.Clusters[0].Pools {
			if pool.Name == "pool" && (pool.Desired != n || pool.Ready != n) {
				return fmt.Sprintf("pool has %d ready of %d, want %d", pool.Ready, pool.Desired, n)
			}
		}
		return ""
	}
}

func all(checks ...func(status) string) func(status) string {
	return func(s status) string {
		for _, check := range checks {
			if why := check(s); why != "" {
				return why
			}
		}
		return ""
	}
}

func threeNodes(t *testing.T, p *plane) {
	s := p.eventually("three ready nodes", all(readyNodes(3), poolReady(2)))
	cluster := s.Clusters[0]
	if cluster.ControlPlane != (replicas{1, 1}) || cluster.Phase != "Provisioned" {
		t.Errorf("control plane %+v, phase %s", cluster.ControlPlane, cluster.Phase)
	}
	seen := map[string]bool{}
	for _, node := range cluster.Nodes {
		if !strings.HasPrefix(node.ProviderID, "slipway://default/"+node.Name+"/") || node.Version != current || seen[node.ProviderID] {
			t.Errorf("node %+v", node)
		}
		seen[node.ProviderID] = true
	}
	claimed := 0
	for _, host := range s.Hosts {
		if host.ClaimedBy != "" {
			claimed++
		}
		if len(host.Addresses) != 2 || !strings.HasPrefix(host.Addresses[0], "10.88.0.") || !strings.HasPrefix(host.Addresses[1], "fd00:88::") {
			t.Errorf("host %s has addresses %v, want one of each family", host.Name, host.Addresses)
		}
	}
	if claimed != 3 || len(s.Hosts) != 4 {
		t.Errorf("%d of %d hosts claimed, want 3 of 4", claimed, len(s.Hosts))
	}
}

func columns(t *testing.T, p *plane) {
	for resource, want := range map[string][]string{
		"cluster":         {"local", "Provisioned"},
		"machinepool":     {"local-pool", current},
		"hostmachinepool": {"local", "2", "True"},
		"hostmachine":     {"local", "host-", "True"},
		"host":            {"host-1", "Running", "10.88.0."},
	} {
		// A pool is ready a little later than its nodes are.
		poll.Until(t, "the columns of "+resource, func() error {
			out := p.mustKubectl("", "get", resource, "-A")
			for _, w := range want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("kubectl get %s does not show %q:\n%s", resource, w, out)
				}
			}
			return nil
		})
	}
}

func service(t *testing.T, p *plane) {
	p.apply("local", live.Workload)
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	nodes := strings.Fields(p.mustKubectl("local", "get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[*].spec.nodeName}"))
	if len(nodes) != 2 || nodes[0] == nodes[1] {
		t.Fatalf("pods run on %v", nodes)
	}
	bothAnswer(t, p)
}

// bothAnswer asks the Service by name from inside a pod until both servers have
// answered. Rules and endpoints follow the pods with some delay.
func bothAnswer(t *testing.T, p *plane) {
	t.Helper()
	begin := time.Now()
	answered := map[string]bool{}
	poll.Until(t, "both pods answer behind the Service", func() error {
		out, err := p.kubectl("local", "exec", "deployment/echo", "--", "/usr/local/bin/echo", "get", "http://echo.default.svc.cluster.local/")
		if err != nil {
			return err
		}
		if answered[strings.TrimSpace(out)] = true; len(answered) < 2 {
			return fmt.Errorf("only %v did", answered)
		}
		return nil
	})
	t.Logf("both pods answered: %.1fs", time.Since(begin).Seconds())
}

func scalePool(p *plane, n int) {
	p.t.Helper()
	p.mustKubectl("", "patch", "cluster", "local", "--type", "json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/topology/workers/machinePools/0/replicas","value":%d}]`, n))
}

func scaleUp(_ *testing.T, p *plane) {
	scalePool(p, 3)
	p.eventually("one more ready node", all(readyNodes(4), poolReady(3)))
}

func scaleDown(t *testing.T, p *plane) {
	scalePool(p, 2)
	s := p.eventually("drained, removed and the host available", all(readyNodes(3), poolReady(2), func(s status) string {
		for _, host := range s.Hosts {
			if host.Phase == "Available" && host.ClaimedBy == "" {
				return ""
			}
		}
		return fmt.Sprintf("no host is available: %+v", s.Hosts)
	}))
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	var events string
	if events = p.mustKubectl("", "get", "events", "-A"); !strings.Contains(events, "SuccessfulDrainNode") {
		t.Errorf("core did not drain the node:\n%s\n%+v", events, s)
	}
}

// aWorker is the name of a host of the pool.
func aWorker(p *plane) string {
	p.t.Helper()
	for _, host := range p.status().Hosts {
		if strings.HasPrefix(host.ClaimedBy, "local/local-pool") {
			return host.Name
		}
	}
	p.t.Fatal("no host of the pool")
	return ""
}

func nodeReady(name string, want bool) func(status) string {
	return func(s status) string {
		for _, node := range s.Clusters[0].Nodes {
			if node.Name == name && node.Ready == want {
				return ""
			}
		}
		return fmt.Sprintf("node %s: want ready=%t in %+v", name, want, s.Clusters[0].Nodes)
	}
}

// noWarnings holds that enrollment, claims, bootstraps, scaling and resets that go well
// raise no false alarm. What upstream's controllers say of their own objects is theirs.
func noWarnings(t *testing.T, p *plane) {
	ours := regexp.MustCompile(`^(?:Host\w*|ExtensionConfig|Lifecycle\w+) `)
	for line := range strings.Lines(p.mustKubectl("", "get", "events", "-A", "--field-selector", "type=Warning", "-o",
		`jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name}: {.reason}: {.message}{"\n"}{end}`)) {
		if ours.MatchString(line) {
			t.Errorf("a Warning, and all went well: %s", line)
		} else {
			t.Logf("of upstream: %s", line)
		}
	}
}

func powerCycle(t *testing.T, p *plane) {
	worker := aWorker(p)
	nodeBoot := func() string {
		return p.mustKubectl("local", "get", "node", worker, "-o", "jsonpath={.status.nodeInfo.bootID}")
	}
	before := nodeBoot()
	p.must("host", "power-cycle", worker)
	p.eventually("back after the power-cycle", all(nodeReady(worker, true), readyNodes(3), func(status) string {
		node, host := nodeBoot(), p.mustKubectl("", "get", "host", worker, "-o", "jsonpath={.status.bootID}")
		if node == before || host != node {
			return fmt.Sprintf("boot was %s, the Node says %s, the Host says %s", before, node, host)
		}
		return ""
	}))
	bothAnswer(t, p)
}

func dashboardsHaveData(t *testing.T, p *plane) {
	p.apply("", fmt.Sprintf(`{apiVersion: infrastructure.slipway.dev/v1beta2, kind: AgentRelease, metadata: {name: %[1]s},
  spec: {version: %[1]s, digest: "sha256:%064[2]d", architectures: [amd64]}}`, live.Version(t, filepath.Join(p.bin, "slipway-agent")), 0))
	watched(t, p).AssertData(t, dashboards, "fleet", "cluster", "host")
}

// cutAndHeal has a Prometheus watch, with the alerts of a release but their patience. Most of
// its time is kube-controller-manager's grace for a node. A release of agents is there, which
// takes in no host: local hosts have the plane's agent.
func cutAndHeal(t *testing.T, p *plane) {
	level.Deep(t)
	worker := aWorker(p)
	server := watched(t, p)
	p.must("host", "cut", worker)
	p.eventually("not ready behind the cut", nodeReady(worker, false))
	p.eventually("the alert fires", func(status) string { return firing(t, server, worker) })
	p.must("host", "heal", worker)
	p.eventually("ready again", nodeReady(worker, true))
	p.eventually("the alert ends", func(status) string { return firing(t, server) })
}

// dashboards is the folder of those for Grafana.
const dashboards = "../../config/monitoring/dashboards"

// watched is a Prometheus that scrapes a plane.
func watched(t *testing.T, p *plane) *monitoring.Prometheus {
	t.Helper()
	rules, err := os.ReadFile("../../config/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 2s")), 0o600); err != nil {
		t.Fatal(err)
	}
	address := monitoring.Reach(t, filepath.Join(p.StateDir, "plane.sock"))
	return monitoring.Start(t, p.bin, p.Environ(), fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- {job_name: slipway, static_configs: [{targets: [%q]}]}
- {job_name: slipway-lifecycle, metrics_path: /lifecycle/metrics, static_configs: [{targets: [%q]}]}
`, file, address, address))
}

// firing tells when the alert does not fire for just these hosts.
func firing(t *testing.T, server *monitoring.Prometheus, hosts ...string) string {
	t.Helper()
	alerts, err := server.Firing(t.Context(), "SlipwayHostDisconnected")
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, alert := range alerts {
		names = append(names, string(alert["host"]))
	}
	return differs(strings.Join(hosts, " "), strings.Join(names, " "))
}

func killPlane(t *testing.T, p *plane) {
	pid := p.status().Plane.PID
	p.mustKubectl("", "create", "configmap", "survivor", "--from-literal=a=b")
	live.Kill(t, pid)
	p.eventually("its supervisor starts it again", func(s status) string {
		if s.Plane.PID == pid || !s.Plane.Ready {
			return fmt.Sprintf("plane %+v", s.Plane)
		}
		return ""
	})
	p.mustKubectl("", "get", "configmap", "survivor")
	p.eventually("the cluster as it was", all(readyNodes(3), poolReady(2)))
}

func downAndUp(t *testing.T, p *plane) {
	boots := func() map[string]bool {
		ids := map[string]bool{}
		for _, id := range strings.Fields(p.mustKubectl("local", "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.bootID}")) {
			ids[id] = true
		}
		return ids
	}
	before := boots()
	p.must("down")
	restoreBackup(t, p)
	p.up("--fast")
	for id := range boots() {
		if before[id] {
			t.Errorf("`up` called a Node ready that had not reported since its host was off")
		}
	}
	bothAnswer(t, p)
}

// restoreBackup makes a backup of the state directory, loses all of the plane but its local
// hosts, and unpacks it.
func restoreBackup(t *testing.T, p *plane) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "plane.tar.gz")
	tar := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("tar", append([]string{"-C", p.StateDir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("tar %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tar("-czf", archive, "--exclude", "./hosts", "--exclude", "./*.sock", ".")
	entries, err := os.ReadDir(p.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "hosts" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.StateDir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	tar("-xzf", archive)
}

func deleteCluster(_ *testing.T, p *plane) {
	p.mustKubectl("", "delete", "cluster", "local", live.Waits())
	p.eventually("every host available", func(s status) string {
		if len(s.Clusters) != 0 {
			return "the cluster is still there"
		}
		for _, host := range s.Hosts {
			if host.Phase != "Available" {
				return fmt.Sprintf("host %s is %s: %s", host.Name, host.Phase, host.Message)
			}
		}
		return ""
	})
}
