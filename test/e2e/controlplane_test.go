package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/live"
)

const (
	// virtualIP is the control-plane endpoint of the clusters of these tests.
	virtualIP = "10.88.0.200"
	// takeOverLimit is what docs/ha.md promises.
	takeOverLimit = 10 * time.Second
)

// haCluster has three control planes, spread over those racks that have hosts for them.
var haCluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: local, namespace: default, labels: {slipway.dev/cni: flannel}}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}, serviceDomain: cluster.local}
  topology:
    classRef: {name: users}
    version: ` + current + `
    controlPlane: {replicas: 3}
    workers: {machinePools: [{class: default-worker, name: pool, replicas: 1}]}
    variables:
      - {name: controlPlaneEndpointHost, value: ` + virtualIP + `}
      - {name: failureDomainLabel, value: rack}
      - {name: controlPlaneHostLabels, value: {role: control-plane}}
      - {name: workerHostLabels, value: {role: worker}}
`

// TestControlPlane is what three control planes and their hosts outlive.
func TestControlPlane(t *testing.T) {
	level.Deep(t)
	// On a busy machine six hosts miss a term of the address now and then.
	p := newPlane(t, live.Alone)
	p.up("--fast", "--no-cluster", "--hosts", "6")
	// Rack c has no host for a control plane, and the others have none for a worker.
	for i, labels := range [][]string{
		{"rack=a", "role=control-plane"}, {"rack=a", "role=control-plane"},
		{"rack=b", "role=control-plane"}, {"rack=b", "role=control-plane"},
		{"rack=c", "role=worker"}, {"rack=c", "role=worker"},
	} {
		p.mustKubectl("", append([]string{"label", "host", fmt.Sprintf("host-%d", i+1)}, labels...)...)
	}
	p.classWithCommands("users")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(haCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	p.up("--fast", "--hosts", "6", "-f", file)

	h := &haTest{up: []string{"--fast", "--hosts", "6", "-f", file}}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"control planes are spread over failure domains", spread},
		{"an agent that is killed keeps the address", h.killedAgent},
		{"the holder's power is cut", h.powerCut},
		{"the holder's network is cut", h.linkCut},
		{"the holder's network is cut while another host joins", h.linkCutDuringJoin},
		{"the holder's power is cut while the plane is dead", h.powerCutWithoutPlane},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			q := *p
			q.t = t
			step.run(t, &q)
		}) {
			return
		}
	}
}

// usersCommand is a phase of init, as users have it among the commands of all machines of a
// control plane.
const usersCommand = "kubeadm init phase upload-config kubeadm --kubeconfig /etc/kubernetes/admin.conf --config /run/kubeadm/kubeadm.yaml || true"

// classWithCommands makes a class like slipway-local whose control planes have that command.
func (p *plane) classWithCommands(name string) {
	p.t.Helper()
	class, err := os.ReadFile("../../templates/local/clusterclass.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	const commands = "        preKubeadmCommands:\n"
	if strings.Count(string(class), commands) != 1 {
		p.t.Fatal("the class has no place for a command")
	}
	p.apply("", strings.NewReplacer(
		"name: slipway-local\n", "name: "+name+"\n",
		commands, "        postKubeadmCommands: ["+strconv.Quote(usersCommand)+"]\n"+commands,
	).Replace(string(class)))
}

// objects reads a list of the plane into values.
func objects[T any](p *plane, args ...string) []T {
	p.t.Helper()
	var list struct{ Items []T }
	if err := json.Unmarshal([]byte(p.mustKubectl("", append([]string{"get", "-o", "json"}, args...)...)), &list); err != nil {
		p.t.Fatal(err)
	}
	return list.Items
}

type machineObject struct {
	Metadata struct {
		Name string
		UID  string
	}
	Spec struct {
		ProviderID    string
		FailureDomain string
	}
	Status struct{ Phase string }
}

// host is the name of the host that a machine runs on.
func (m machineObject) host() string {
	parts := strings.Split(m.Spec.ProviderID, "/")
	if len(parts) != 5 {
		return ""
	}
	return parts[3]
}

type hostObject struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Status struct {
		ObservedOperation struct{ ID, Phase, State, Step string }
		VirtualIP         struct {
			Address, State string
			Term           int
		}
	}
}

func controlPlanes(p *plane) []machineObject {
	p.t.Helper()
	return objects[machineObject](p, "machine", "-l", "cluster.x-k8s.io/control-plane")
}

func spread(t *testing.T, p *plane) {
	racks := map[string]string{}
	for _, h := range objects[hostObject](p, "host") {
		racks[h.Metadata.Name] = h.Metadata.Labels["rack"]
	}
	domains := p.mustKubectl("", "get", "hostcluster", "-o", "jsonpath={range .items[0].status.failureDomains[*]}{.name}={.controlPlane} {end}")
	free := map[string]int{"a": 2, "b": 2}
	for _, m := range controlPlanes(p) {
		free[racks[m.host()]]--
	}
	// Another control plane would find a host in one of them alone.
	if want := fmt.Sprintf("a=%t b=%t c=false", free["a"] > 0, free["b"] > 0); strings.TrimSpace(domains) != want {
		t.Errorf("the HostCluster offers the failure domains %q, want %q", domains, want)
	}
	var used []string
	for _, m := range controlPlanes(p) {
		if racks[m.host()] != m.Spec.FailureDomain {
			t.Errorf("machine %s of failure domain %s runs on %s in rack %s", m.Metadata.Name, m.Spec.FailureDomain, m.host(), racks[m.host()])
		}
		used = append(used, m.Spec.FailureDomain)
	}
	if slices.Sort(used); len(used) != 3 || !slices.Equal(slices.Compact(used), []string{"a", "b"}) {
		t.Errorf("the control planes run in %v", used)
	}
}

// holder waits until one host holds the address and everything that tells so
// agrees, and returns it.
func holder(p *plane) string {
	p.t.Helper()
	name, term := "", 0
	p.eventually("one host is known to hold the address", func(status) string {
		var held []string
		for _, h := range objects[hostObject](p, "host") {
			if h.Status.VirtualIP.State == "Held" && h.Status.VirtualIP.Term >= term {
				if h.Status.VirtualIP.Term > term {
					held = nil
				}
				held, term = append(held, h.Metadata.Name), h.Status.VirtualIP.Term
			}
		}
		if len(held) != 1 {
			return fmt.Sprintf("hosts %v say that they hold the address in term %d", held, term)
		}
		condition := p.mustKubectl("", "get", "hostcluster", "-o", `jsonpath={range .items[0].status.conditions[?(@.type=="EndpointHeld")]}{.status} {.message}{end}`)
		if !strings.HasPrefix(condition, "True") || !strings.Contains(condition, held[0]) {
			return "EndpointHeld says " + condition
		}
		lease, err := leaseHolder(p)
		if err != nil || !strings.HasPrefix(lease, held[0]+"_") {
			return fmt.Sprintf("the Lease names %q, the hosts %s: %v", lease, held[0], err)
		}
		name = held[0]
		return ""
	})
	return name
}

func leaseHolder(p *plane) (string, error) {
	return p.kubectl("local", "get", "lease", "-n", "kube-system", "slipway-control-plane-endpoint", "-o", "jsonpath={.spec.holderIdentity}")
}

// sandboxOf is the process of a host, as seen from the machine.
func sandboxOf(p *plane, name string) int {
	p.t.Helper()
	var hosts []struct {
		Name string
		PID  int
	}
	if err := json.Unmarshal([]byte(p.must("host", "list", "-o", "json")), &hosts); err != nil {
		p.t.Fatal(err)
	}
	for _, h := range hosts {
		if h.Name == name {
			return h.PID
		}
	}
	p.t.Fatalf("no host %s in %+v", name, hosts)
	return 0
}

// hasAddress looks into the host whether it has the address.
func hasAddress(p *plane, name string) bool {
	p.t.Helper()
	table, text := "net/fib_trie", p.endpoint
	if ip := netip.MustParseAddr(p.endpoint); ip.Is6() {
		table, text = "net/if_inet6", fmt.Sprintf("%x", ip.As16())
	}
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(sandboxOf(p, name)), table))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Contains(string(content), text)
}

// haTest is what the steps share.
type haTest struct {
	// up are the flags that bring the plane back.
	up []string
}

func (*haTest) killedAgent(t *testing.T, p *plane) {
	name := holder(p)
	term := func() string {
		return p.mustKubectl("local", "get", "lease", "-n", "kube-system", "slipway-control-plane-endpoint", "-o", "jsonpath={.spec.leaseTransitions} {.spec.holderIdentity}")
	}
	before := term()
	prober := live.StartProber(t, p.Name, live.AskAPIServer(p.endpoint))
	begin := time.Now()
	killed := p.ProcessesOn(name, "slipway-agent")
	for _, pid := range killed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	p.waitFor("new agent", func() bool {
		now := p.ProcessesOn(name, "slipway-agent")
		return len(now) == 1 && !slices.Contains(killed, now[0])
	})
	// Twice the time after which another host would have taken the address.
	for time.Since(begin) < takeOverLimit {
		prober.AnswerAfter(t, time.Now())
	}
	gap, failures := prober.LongestGap(begin)
	t.Logf("longest time without an answer: %.1fs, %d attempts failed", gap.Seconds(), len(failures))
	if after := term(); after != before {
		t.Errorf("the term and holder were %s, are %s", before, after)
	}
	if !hasAddress(p, name) {
		t.Errorf("%s lost the address", name)
	}
}

// takeOver breaks the holder and measures until the API answers at the address.
func takeOver(t *testing.T, p *plane, name string, fault ...string) {
	t.Helper()
	prober := live.StartProber(t, p.Name, live.AskAPIServer(p.endpoint))
	prober.AnswerAfter(t, time.Now())
	begin := time.Now()
	p.must(append(append([]string{"host"}, fault...), name)...)
	// An attempt that began after the fault cannot have reached the old holder.
	took := prober.AnswerAfter(t, time.Now()).Sub(begin)
	t.Logf("the API answered again after %.1fs", took.Seconds())
	if took > takeOverLimit {
		t.Errorf("the API was away for %s, longer than %s", took, takeOverLimit)
	}
	prober.End()
}

// whole waits until the hosts of all control planes serve the API again, which
// their etcd must be ready for.
func whole(t *testing.T, p *plane) {
	t.Helper()
	for _, m := range controlPlanes(p) {
		address := p.mustKubectl("", "get", "host", m.host(), "-o", `jsonpath={.status.node.addresses[0]}`)
		prober := live.StartProber(t, p.Name, live.AskAPIServer(address))
		prober.AnswerAfter(t, time.Now())
		prober.End()
	}
	p.eventually("every node is ready", readyNodes(4))
}

func (*haTest) powerCut(t *testing.T, p *plane) {
	old := holder(p)
	takeOver(t, p, old, "power-off")
	if now := holder(p); now == old {
		t.Errorf("%s holds the address without power", old)
	}
	p.must("host", "power-on", old)
	whole(t, p)
	if now := holder(p); now == old {
		t.Errorf("%s took the address back", old)
	}
}

func (*haTest) linkCut(t *testing.T, p *plane) {
	old := holder(p)
	takeOver(t, p, old, "cut")
	if hasAddress(p, old) {
		t.Errorf("%s still has the address behind its cut link", old)
	}
	now := holder(p)
	p.must("host", "heal", old)
	whole(t, p)
	if after := holder(p); after != now || hasAddress(p, old) {
		t.Errorf("%s held the address, now %s; on %s: %t", now, after, old, hasAddress(p, old))
	}
}

// linkCutDuringJoin replaces a control plane, and cuts the holder off while the new one joins.
func (*haTest) linkCutDuringJoin(t *testing.T, p *plane) {
	old := holder(p)
	former := controlPlanes(p)
	i := slices.IndexFunc(former, func(m machineObject) bool { return m.host() != old })
	p.mustKubectl("", "delete", "machine", former[i].Metadata.Name, "--wait=false")
	joining := ""
	p.eventually("another control plane joins", func(status) string {
		for _, h := range objects[hostObject](p, "host") {
			if op := h.Status.ObservedOperation; op.Phase == "Bootstrapped" && op.State == "Running" {
				joining = h.Metadata.Name
				return ""
			}
		}
		return "no host bootstraps"
	})
	p.must("host", "cut", old)
	// The two control planes that are left have no majority without each other: nobody is
	// elected, and the address is free.
	begin := time.Now()
	p.eventually("the cut has lasted longer than an election", func(status) string {
		if hasAddress(p, joining) {
			t.Fatalf("%s has the address while it joins", joining)
		}
		if took := time.Since(begin); took < 2*takeOverLimit {
			return fmt.Sprintf("cut off for %s", took)
		}
		return ""
	})
	p.must("host", "heal", old)
	p.eventually("three control planes are ready", func(s status) string {
		var held []string
		for _, m := range controlPlanes(p) {
			if m.host() != "" && hasAddress(p, m.host()) {
				held = append(held, m.host())
			}
		}
		if len(held) > 1 {
			t.Fatalf("%v have the address", held)
		}
		if n := len(controlPlanes(p)); n != 3 {
			return fmt.Sprintf("%d control planes", n)
		}
		return readyNodes(4)(s)
	})
	whole(t, p)
	holder(p)
}

func (h *haTest) powerCutWithoutPlane(t *testing.T, p *plane) {
	identities := func() (all []string) {
		for _, m := range objects[machineObject](p, "machine") {
			all = append(all, m.Metadata.UID+" "+m.Spec.ProviderID)
		}
		slices.Sort(all)
		return all
	}
	old, before := holder(p), identities()
	p.KillAll(t)
	takeOver(t, p, old, "power-off")
	p.up(h.up...)
	whole(t, p)
	if now := holder(p); now == old {
		t.Errorf("%s took the address back", old)
	}
	if after := identities(); !slices.Equal(before, after) {
		t.Errorf("machines were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	providers := strings.Fields(p.mustKubectl("local", "get", "nodes", "-o", "jsonpath={.items[*].spec.providerID}"))
	if slices.Sort(providers); len(slices.Compact(slices.Clone(providers))) != 4 {
		t.Errorf("nodes %v", providers)
	}
}
