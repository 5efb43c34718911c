package inventory_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/test/fakehost"
)

func addresses(all ...string) (found []nodeaddress.Address) {
	for _, a := range all {
		found = append(found, nodeaddress.Address{Addr: netip.MustParseAddr(a)})
	}
	return found
}

func TestCollect(t *testing.T) {
	h := fakehost.New(t)
	for path, content := range map[string]string{
		"/sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n", "/etc/os-release": "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n", "/etc/machine-id": "abc\n", "/proc/sys/kernel/osrelease": "6.1.0\n",
	} {
		if err := os.MkdirAll(filepath.Dir(h.Root.Path(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Root.Path(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byRoute := false
	node := inventory.Node{VirtualIP: netip.MustParseAddr("fd00::200")}
	c := inventory.Collector{
		Root: h.Root, Hostname: func() (string, error) { return "h", nil }, AgentVersion: "v1",
		Versions: func(context.Context) []string { return []string{"v1.36.3"} },
		Hardware: func() infrav1.HostHardware { return infrav1.HostHardware{BootMode: infrav1.BootModeUEFI} },
		Rule:     nodeaddress.Rule{IPs: []netip.Addr{netip.MustParseAddr("192.168.0.5")}},
		Interfaces: func() ([]nodeaddress.Interface, error) {
			return []nodeaddress.Interface{
				{Name: "br-mgmt", Kind: "bridge", Hardware: true, Addresses: addresses("10.0.0.5", "fd00::200")},
				{Name: "cni0", Kind: "bridge", Addresses: addresses("10.244.0.1")},
				{Name: "eth1", Kind: "device", Hardware: true, Default4: byRoute, Addresses: addresses("192.168.0.5")},
			}, nil
		},
	}
	f, err := c.Collect(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	i := f.Inventory
	if i.MachineID != "abc" || i.OperatingSystem != "Some Linux 1" || i.KernelVersion != "6.1.0" || i.Architecture != runtime.GOARCH || i.Cgroups != infrav1.CgroupV2 || i.AgentVersion != "v1" || i.KubernetesVersions[0] != "v1.36.3" || i.Hardware.BootMode != infrav1.BootModeUEFI {
		t.Errorf("inventory is %+v", i)
	}
	want := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "h"}, {Type: clusterv1.MachineInternalIP, Address: "192.168.0.5"}, {Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"},
	}
	if len(f.Addresses) != len(want) {
		t.Fatalf("addresses are %v, want %v", f.Addresses, want)
	}
	for n := range want {
		if f.Addresses[n] != want[n] {
			t.Errorf("address %d is %v, want %v", n, f.Addresses[n], want[n])
		}
	}
	c.Rule, byRoute = nodeaddress.Rule{}, true
	if byRoute, err := c.Collect(t.Context(), node); err != nil || !slices.Equal(byRoute.Addresses, want) {
		t.Errorf("with the default route by eth1 the addresses are %v, want %v (%v)", byRoute.Addresses, want, err)
	}
	c.Services = func(context.Context) []infrav1.HostService {
		return []infrav1.HostService{{Name: "kubelet", State: "active"}}
	}
	node.IPs = []netip.Addr{netip.MustParseAddr("192.168.0.5")}
	if ofNode, err := c.Collect(t.Context(), node); err != nil || len(ofNode.Services) != 1 || f.Services != nil {
		t.Errorf("the services of a node are %v, of a host that is none %v (%v)", ofNode.Services, f.Services, err)
	}
	if f.Capacity.Memory().Value() != 1<<20 || f.Capacity.Cpu().Value() != int64(runtime.NumCPU()) || f.Capacity.StorageEphemeral().Value() == 0 {
		t.Errorf("capacity is %v", f.Capacity)
	}
	if got := inventory.BootID(h.Root); got != "boot-1" {
		t.Errorf("boot ID is %q", got)
	}
}

// Only the one hierarchy has controllers at its top. With both, as systemd mounts them at choice, the kubelet takes the
// host for one with version 1.
func TestCgroups(t *testing.T) {
	for name, c := range map[string]struct {
		dirs []string
		want infrav1.CgroupVersion
	}{
		"no such directory": {nil, ""},
		"nothing mounted":   {[]string{""}, ""},
		"one hierarchy":     {[]string{"cgroup.controllers", "system.slice"}, infrav1.CgroupV2},
		"one for each":      {[]string{"memory", "systemd"}, infrav1.CgroupV1},
		"both":              {[]string{"memory", "unified/cgroup.controllers"}, infrav1.CgroupV1},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			for _, dir := range c.dirs {
				if err := os.MkdirAll(h.Root.Path("/sys/fs/cgroup/"+dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if got := (inventory.Collector{Root: h.Root}).Cgroups(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What comes and goes on a node, and the address that moves, are not its identity.
func TestIdentity(t *testing.T) {
	addresses := []string{"127.0.0.1/8", "::1/128", "fe80::1/64", "192.0.2.1/24", "2001:db8::1/64"}
	c := inventory.Collector{Hostname: func() (string, error) { return "host-1", nil }, Addresses: func() (all []net.Addr, _ error) {
		for _, a := range addresses {
			ip, network, err := net.ParseCIDR(a)
			if err != nil {
				return nil, err
			}
			all = append(all, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		return all, nil
	}}
	own, virtual := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.200")
	identity := func(node inventory.Node) string {
		t.Helper()
		text, err := c.Identity(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	free, node := inventory.Node{}, inventory.Node{IPs: []netip.Addr{own}, VirtualIP: virtual}
	if got := identity(free); got != "host-1 192.0.2.1 2001:db8::1" {
		t.Errorf("a free host: %q", got)
	}
	addresses = append(addresses, "10.244.0.1/24", "192.0.2.200/32")
	if got := identity(node); got != "host-1 192.0.2.1" {
		t.Errorf("a node with its pods, which holds the virtual address: %q", got)
	}
	if got := identity(inventory.Node{VirtualIP: virtual}); strings.Contains(got, "192.0.2.200") {
		t.Errorf("a host whose node is not decided: %q", got)
	}
	addresses = addresses[:3]
	if got := identity(node); got != "host-1 " {
		t.Errorf("a node that lost its address: %q", got)
	}
	c.Services = func(context.Context) []infrav1.HostService {
		return []infrav1.HostService{{Name: "kubelet", State: "failed"}}
	}
	if got := identity(node); got != "host-1 kubelet=failed" {
		t.Errorf("a node whose kubelet has ended: %q", got)
	}
	if got := identity(free); strings.Contains(got, "kubelet") {
		t.Errorf("a free host, whose kubelet does not matter: %q", got)
	}
	c.EndpointFailure = func(context.Context) *infrav1.HostEndpointFailure {
		return &infrav1.HostEndpointFailure{Server: "https://192.0.2.9:6443"}
	}
	if got := identity(node); !strings.HasSuffix(got, " no https://192.0.2.9:6443") {
		t.Errorf("a node that does not reach its cluster: %q", got)
	}
	if got := identity(free); strings.Contains(got, "192.0.2.9") {
		t.Errorf("a free host, which has no cluster: %q", got)
	}
	ends := metav1.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	c.KubeletCertificateExpires = func() *metav1.Time { return &ends }
	if got := identity(node); !strings.HasSuffix(got, " kubelet until 2026-05-04T12:00:00Z") {
		t.Errorf("a node whose kubelet does not renew its certificate: %q", got)
	}
	if got := identity(free); strings.Contains(got, "until") {
		t.Errorf("a free host, whose certificate does not matter: %q", got)
	}
	c.LowDisk = func() *infrav1.HostLowDisk {
		return &infrav1.HostLowDisk{Path: "/var/lib", FreeGiB: ptr.To[int32](1)}
	}
	if got := identity(free); !strings.HasSuffix(got, " /var/lib=1 GiB") {
		t.Errorf("a host without space: %q", got)
	}
	c.RebootRequired = func(context.Context) *infrav1.HostRebootRequired {
		return &infrav1.HostRebootRequired{KernelVersion: "6.1.0-28-amd64", Packages: []string{"dbus", "libc6"}}
	}
	if got := identity(free); !strings.HasSuffix(got, ` reboot=6.1.0-28-amd64 ["dbus" "libc6"]`) {
		t.Errorf("a host to be rebooted: %q", got)
	}
}
