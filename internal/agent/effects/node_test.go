package effects_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/test/fakehost"
)

// initData makes a control plane and leaves open what the node is called and where its API server is.
const initData = "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  content: |\n" +
	"    apiVersion: kubeadm.k8s.io/v1beta4\n    kind: InitConfiguration\n    localAPIEndpoint: {}\n"

// dualStack is what a host with both families, and the virtual address of an earlier moment, has.
func dualStack() ([]nodeaddress.Interface, error) {
	all := []nodeaddress.Interface{{Name: "bond0", Kind: "bond", Hardware: true, Default4: true, Default6: true}}
	for _, ip := range []string{"fd00::5", "10.0.0.5"} {
		all[0].Addresses = append(all[0].Addresses, nodeaddress.Address{Addr: netip.MustParseAddr(ip)})
	}
	return all, nil
}

// The identity of a node is decided once, recorded, and given to the kubelet and kubeadm.
func TestNodeIdentityIsDecidedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		families []infrav1.HostIPFamily
		virtual  string
		data     string
		kubelet  string
		kubeadm  []string
	}{
		"IPv4":       {nil, "", initData, "--node-ip=10.0.0.5 --hostname-override=host-1", []string{"advertiseAddress: 10.0.0.5", "name: host-1"}},
		"IPv6":       {nil, "fd00::200", initData, "--node-ip=fd00::5 --hostname-override=host-1", []string{"advertiseAddress: fd00::5"}},
		"dual stack": {[]infrav1.HostIPFamily{infrav1.HostIPv6, infrav1.HostIPv4}, "fd00::200", initData, "--node-ip=fd00::5,10.0.0.5", []string{"advertiseAddress: fd00::5"}},
		// An earlier manager says no families.
		"nodeIP of both": {nil, "10.0.0.200", initData, "--node-ip=10.0.0.5,fd00::5", []string{"advertiseAddress: 10.0.0.5"}},
		"named by data":  {nil, "", initData + "    nodeRegistration: {name: Rack1-A}\n", "--hostname-override=rack1-a", []string{"name: Rack1-A"}},
		"named by cloud": {nil, "", initData + "hostname: cloud-7\n", "--hostname-override=cloud-7", []string{"name: cloud-7"}},
		"address by data": {nil, "", initData + "    nodeRegistration: {kubeletExtraArgs: [{name: node-ip, value: 10.7.7.7}]}\n", "--node-ip=10.7.7.7",
			[]string{"advertiseAddress: 10.7.7.7"}},
		"labels": {nil, "", initData, "--node-labels=gpu=2,rack=a,topology.kubernetes.io/zone=a --register-node", nil},
		"labels by data": {nil, "", initData + "    nodeRegistration: {kubeletExtraArgs: [{name: node-labels, value: \"rack=b, topology.kubernetes.io/zone=b\"}]}\n",
			"--node-labels=gpu=2 --register-node", nil},
		"family by data": {nil, "", initData + "    nodeRegistration: {kubeletExtraArgs: [{name: node-ip, value: \"::\"}]}\n", "--node-ip=fd00::5", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			h.Executor.Interfaces = dualStack
			if name == "nodeIP of both" {
				h.Executor.Rule.IPs = []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}
			}
			requested := operation.Bootstrap{VirtualIP: c.virtual, IPFamilies: c.families, Data: []byte(c.data),
				NodeLabels: map[string]string{"rack": "a", "topology.kubernetes.io/zone": "a", "gpu": "2"}}
			if err := h.Executor.Bootstrap(t.Context(), requested, p); err != nil {
				t.Fatal(err)
			}
			if got := read(t, h, "/etc/default/kubelet"); !strings.Contains(got, c.kubelet) {
				t.Errorf("the kubelet gets %q, want %q", got, c.kubelet)
			}
			for _, want := range c.kubeadm {
				if got := read(t, h, "/run/kubeadm/kubeadm.yaml"); !strings.Contains(got, want) {
					t.Errorf("kubeadm gets\n%s, want %q", got, want)
				}
			}
			hostName := "host-1"
			if name == "named by cloud" {
				hostName = "cloud-7" // the bootstrap renames the host
			}
			if node := p.State().Node; node == nil || len(node.IPs) == 0 || node.HostName != hostName {
				t.Errorf("recorded is %+v", node)
			}
		})
	}
}

// Between two tries the host gets another name and another address. The node keeps its own: the cluster
// may know it already.
func TestNodeIdentityStays(t *testing.T) {
	h, p := fakehost.New(t), newRecord(t)
	h.Executor.Interfaces = dualStack
	requested := operation.Bootstrap{Data: []byte(initData + "runcmd: [\"test -e " + h.Root.Path("/etc/second") + "\"]\n")}
	if err := h.Executor.Bootstrap(t.Context(), requested, p); err == nil {
		t.Fatal("the first try succeeds")
	}
	before := *p.State().Node
	h.Executor.Hostname = func() (string, error) { return "renamed-by-dhcp", nil }
	h.Executor.Interfaces = h.Network.Interfaces
	if err := os.WriteFile(h.Root.Path("/etc/second"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Executor.Bootstrap(t.Context(), requested, p); err != nil {
		t.Fatal(err)
	}
	if after := p.State().Node; after.Name != before.Name || after.IPs[0] != before.IPs[0] {
		t.Errorf("the node is %+v, and was %+v", after, before)
	}
	if got := read(t, h, "/etc/default/kubelet"); !strings.Contains(got, "--hostname-override=host-1") {
		t.Errorf("the kubelet gets %q", got)
	}
}

func TestNodeIdentityThatCannotBeDecided(t *testing.T) {
	for name, c := range map[string]struct {
		host    string
		rule    nodeaddress.Rule
		reason  string
		message string
	}{
		"no address":           {"host-1", nodeaddress.Rule{Interface: "eth7"}, operation.ReasonNodeAddressUnknown, "nodeIPInterface eth7"},
		"too long for a label": {strings.Repeat("a", 64), nodeaddress.Rule{}, operation.ReasonNodeNameInvalid, "at most 63"},
		"no name of a Node":    {"host_1", nodeaddress.Rule{}, operation.ReasonNodeNameInvalid, "host_1"},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := fakehost.New(t), newRecord(t)
			h.Executor.Rule, h.Executor.Hostname = c.rule, func() (string, error) { return c.host, nil }
			e := operation.AsError(h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n")}, p))
			if e.Reason != c.reason || e.Retry != operation.RetryLater || !strings.Contains(e.Message, c.message) {
				t.Errorf("error is %+v, want %s with %q", e, c.reason, c.message)
			}
			if s := p.State(); s.Residue != journal.ResidueNone || s.Baseline != nil {
				t.Error("the host was changed before that was known")
			}
		})
	}
}
