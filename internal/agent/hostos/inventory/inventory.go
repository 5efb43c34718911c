package inventory

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Collector reads the inventory of a host.
type Collector struct {
	Root hostfs.Root
	// Hostname returns the name of the machine.
	Hostname func() (string, error)
	// Addresses lists the addresses of the interfaces that are up.
	Addresses func() ([]network.Address, error)
	// Versions lists the installed Kubernetes versions.
	Versions func(context.Context) []string
	// Software tells who brings versions. May be nil.
	Software func() infrav1.HostSoftware
	// Hardware tells what the machine is.
	Hardware func() infrav1.HostHardware
	// NodeIP is reported first when it is set. Otherwise the addresses of the interface of the
	// default route are, one of which the kubelet chooses then. DefaultLink names it.
	NodeIP      string
	DefaultLink func() (string, error)
	// AgentVersion is the version of the running binary.
	AgentVersion string
}

// Facts are what Collect found.
type Facts struct {
	Inventory infrav1.HostInventory
	Software  infrav1.HostSoftware
	Capacity  corev1.ResourceList
	Addresses []clusterv1.MachineAddress
}

// Collect reads everything. virtualIP is left out of the addresses: it moves
// between hosts.
func (c Collector) Collect(ctx context.Context, virtualIP string) (Facts, error) {
	name, err := c.Hostname()
	if err != nil {
		return Facts{}, err
	}
	addresses, err := c.addresses(name, virtualIP)
	if err != nil {
		return Facts{}, err
	}
	capacity, err := c.capacity()
	if err != nil {
		return Facts{}, err
	}
	var software infrav1.HostSoftware
	if c.Software != nil {
		software = c.Software()
	}
	return Facts{
		Software:  software,
		Addresses: addresses,
		Capacity:  capacity,
		Inventory: infrav1.HostInventory{
			MachineID:          c.line("/etc/machine-id"),
			OperatingSystem:    c.operatingSystem(),
			KernelVersion:      c.line("/proc/sys/kernel/osrelease"),
			Architecture:       runtime.GOARCH,
			AgentVersion:       c.AgentVersion,
			KubernetesVersions: c.Versions(ctx),
			Hardware:           c.Hardware(),
		},
	}, nil
}

// BootID returns the kernel's ID of this boot; empty when it cannot be read.
func BootID(root hostfs.Root) string {
	data, _ := os.ReadFile(root.Path("/proc/sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(data))
}

func (c Collector) line(path string) string {
	data, _ := os.ReadFile(c.Root.Path(path))
	return strings.TrimSpace(string(data))
}

func (c Collector) operatingSystem() string {
	return OSRelease(func(path string) ([]byte, error) { return os.ReadFile(c.Root.Path(path)) })["PRETTY_NAME"]
}

// OSRelease returns the fields of os-release(5); none where it cannot be read.
func OSRelease(read func(path string) ([]byte, error)) map[string]string {
	fields := map[string]string{}
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := read(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
				fields[key] = strings.Trim(value, `"'`)
			}
		}
		break
	}
	return fields
}

// capacity is what the kubelet would report for the node.
func (c Collector) capacity() (corev1.ResourceList, error) {
	memory, err := c.memory()
	if err != nil {
		return nil, err
	}
	_, disk, err := c.Root.Space("/var/lib")
	if err != nil {
		return nil, fmt.Errorf("size of /var/lib: %w", err)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
	}, nil
}

func (c Collector) memory() (int64, error) {
	f, err := os.Open(c.Root.Path("/proc/meminfo"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemTotal")
}

// addresses are the name and the addresses of interfaces that are no part of a
// pod network, those by which others reach the host first.
func (c Collector) addresses(name, virtualIP string) ([]clusterv1.MachineAddress, error) {
	found, err := c.Addresses()
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(a network.Address) bool { return a.Prefix.Addr().String() == virtualIP || podLink(a.Link) })
	first := func(a network.Address) bool { return a.Prefix.Addr().String() == c.NodeIP }
	if c.NodeIP == "" {
		link, err := c.DefaultLink()
		if err != nil {
			return nil, err
		}
		first = func(a network.Address) bool { return a.Link == link }
	}
	all := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: name}}
	for _, wanted := range []bool{true, false} {
		for _, a := range found {
			if first(a) == wanted {
				all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a.Prefix.Addr().String()})
			}
		}
	}
	return all, nil
}

// podLinks are interfaces whose addresses come and go with pods and containers.
var podLinks = []string{"cni", "flannel", "kube-", "veth", "docker", "br-", "cali", "cilium", "lxc", "nodelocaldns", "virbr", "tunl"}

func podLink(name string) bool {
	for _, prefix := range podLinks {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".calico")
}
