package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/live"
)

// virtualIPv6 is the control-plane endpoint of clusters of IPv6.
const virtualIPv6 = "fd00:88::200"

// family is a cluster of one family or both.
type family struct {
	endpoint string
	// flags of `slipway cluster create`.
	flags []string
	// nodes are the families of a Node's addresses in their order; true is IPv6.
	nodes []bool
}

// TestControlPlaneDualStack is a control plane of three in a cluster of both families.
func TestControlPlaneDualStack(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, live.Alone)
	p.up("--fast", "--no-cluster", "--hosts", "4")
	p.familyLives(family{endpoint: virtualIP, flags: []string{"--pod-cidr", "10.244.0.0/16,fd00:10:244::/56"}, nodes: []bool{false, true}})
}

// TestControlPlaneIPv6 is a control plane of three on hosts that have no IPv4 but that of the loopback.
func TestControlPlaneIPv6(t *testing.T) {
	level.Deep(t)
	p := newPlane(t, live.Alone)
	p.up("--fast", "--no-cluster", "--hosts", "4")
	for i := range 4 {
		p.withoutIPv4(fmt.Sprintf("host-%d", i+1))
	}
	p.familyLives(family{endpoint: virtualIPv6, nodes: []bool{true}})
}

// withoutIPv4 takes IPv4 off a host, whose agent reaches the plane by IPv6 from then on.
func (p *plane) withoutIPv4(host string) {
	p.t.Helper()
	p.must("host", "shell", host, "--", "sh", "-c", `set -e
sed -i 's|https://10.88.0.1:6443|https://[fd00:88::1]:6443|' /var/lib/slipway-agent/kubeconfig
ip -4 addr flush dev eth0
systemctl restart slipway-agent`)
	p.eventually(host+" reports no address of IPv4", func(s status) string {
		for _, h := range s.Hosts {
			if h.Name == host && (h.Phase != "Available" || len(h.Addresses) != 1 || !strings.HasPrefix(h.Addresses[0], "fd00:88::")) {
				return fmt.Sprintf("it is %s and has %v", h.Phase, h.Addresses)
			}
		}
		return ""
	})
}

// familyLives creates a cluster of three control planes and a worker, cuts its holder off, and deletes it.
func (p *plane) familyLives(f family) {
	t := p.t
	p.endpoint = f.endpoint
	p.must(append([]string{"cluster", "create", "local", "--control-planes", "3", "--endpoint", p.endpoint, "--wait"}, f.flags...)...)
	p.eventually("every node is ready", readyNodes(4))
	for _, step := range []struct {
		name string
		run  func(*testing.T, *plane)
	}{
		{"nodes, etcd and API servers have addresses of their hosts", f.ownAddresses},
		{"pods reach each other and services by each family", f.podNetwork},
		{"the holder's network is cut", (&haTest{}).linkCut},
		{"the addresses are those of before", f.ownAddresses},
		{"deleting the Cluster returns every host", deleteCluster},
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

// ownAddresses holds that no part of the cluster took the virtual address for a host's own.
func (f family) ownAddresses(t *testing.T, p *plane) {
	nodes := strings.Fields(p.mustKubectl("local", "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(nodes) != 4 {
		t.Fatalf("nodes %v", nodes)
	}
	for _, node := range nodes {
		number := strings.TrimPrefix(node, "host-")
		var want []string
		for _, v6 := range f.nodes {
			if v6 {
				want = append(want, "fd00:88::1"+number)
			} else {
				want = append(want, "10.88.0.1"+number)
			}
		}
		got := strings.Fields(p.mustKubectl("local", "get", "node", node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`))
		if !slices.Equal(got, want) {
			t.Errorf("Node %s has %v, want %v", node, got, want)
		}
		var decided []string
		if err := json.Unmarshal([]byte(p.mustKubectl("", "get", "host", node, "-o", "jsonpath={.status.node.addresses}")), &decided); err != nil || !slices.Equal(decided, want) {
			t.Errorf("Host %s has decided on %v (%v), want %v", node, decided, err, want)
		}
	}
	own := map[string]bool{}
	for _, line := range strings.Fields(p.mustKubectl("local", "get", "pods", "-n", "kube-system", "-l", "tier=control-plane", "-o",
		`jsonpath={range .items[*]}{.metadata.annotations.kubeadm\.kubernetes\.io/etcd\.advertise-client-urls}{" "}{.metadata.annotations.kubeadm\.kubernetes\.io/kube-apiserver\.advertise-address\.endpoint}{" "}{end}`)) {
		at, err := netip.ParseAddrPort(strings.TrimPrefix(line, "https://"))
		if err != nil || at.Addr().Is6() != f.nodes[0] || at.Addr() == netip.MustParseAddr(p.endpoint) {
			t.Errorf("a control plane is at %s (%v)", line, err)
		}
		own[at.String()] = true
	}
	if len(own) != 6 {
		t.Errorf("API servers and members of etcd are at %v, want three addresses with two ports each", own)
	}
	holders := 0
	for _, node := range nodes {
		if hasAddress(p, node) {
			holders++
		}
	}
	if holders != 1 {
		t.Errorf("%d hosts have %s", holders, p.endpoint)
	}
}

// podNetwork asks pods on other nodes, and their Service, by each family and by name.
func (f family) podNetwork(t *testing.T, p *plane) {
	policy, families := "RequireDualStack", 2
	if len(f.nodes) == 1 {
		policy, families = "SingleStack", 1
	}
	p.apply("local", strings.NewReplacer(
		"spec:\n  selector: {app: echo}\n  ports:", "spec:\n  ipFamilyPolicy: "+policy+"\n  selector: {app: echo}\n  ports:",
		"      affinity:\n", "      tolerations: [{operator: Exists}]\n      affinity:\n", // There is one worker.
	).Replace(live.Workload))
	p.mustKubectl("local", "rollout", "status", "deployment/echo", live.Waits())
	bothAnswer(t, p)
	services := strings.Fields(p.mustKubectl("local", "get", "service", "echo", "-o", "jsonpath={.spec.clusterIPs[*]}"))
	services = slices.DeleteFunc(services, func(ip string) bool { return ip == "" })
	pods := strings.Fields(p.mustKubectl("local", "get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[*].status.podIPs[*].ip}"))
	if len(services) != families || len(pods) != 2*families {
		t.Fatalf("services %v, pods %v", services, pods)
	}
	var targets []string
	for _, ip := range services {
		targets = append(targets, "http://"+netip.AddrPortFrom(netip.MustParseAddr(ip), 80).String())
	}
	for _, ip := range pods {
		targets = append(targets, "http://"+netip.AddrPortFrom(netip.MustParseAddr(ip), 8080).String())
	}
	for _, target := range targets {
		poll.Until(t, target+" answers a pod", func() error {
			_, err := p.kubectl("local", "exec", "deployment/echo", "--", "/usr/local/bin/echo", "get", target)
			return err
		})
	}
}
