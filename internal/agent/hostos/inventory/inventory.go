package inventory

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
)

// Collector reads the inventory of a host.
type Collector struct {
	Root hostfs.Root
	// Hostname returns the name of the machine.
	Hostname func() (string, error)
	// Interfaces lists the interfaces that are up.
	Interfaces func() ([]nodeaddress.Interface, error)
	// Addresses lists the addresses of all interfaces, as net.InterfaceAddrs.
	Addresses func() ([]net.Addr, error)
	// Versions lists the installed Kubernetes versions.
	Versions func(context.Context) []string
	// Software tells who brings versions. May be nil.
	Software func() infrav1.HostSoftware
	// Hardware tells what the machine is.
	Hardware func() infrav1.HostHardware
	// Services tells how the services of a node are. May be nil.
	Services func(context.Context) []infrav1.HostService
	// LowDisk tells where too little space is free. May be nil.
	LowDisk func() *infrav1.HostLowDisk
	// RebootRequired tells why the host should be rebooted. May be nil.
	RebootRequired func(context.Context) *infrav1.HostRebootRequired
	// EndpointFailure tells why a node does not reach the endpoint of its cluster. May be nil.
	EndpointFailure func(context.Context) *infrav1.HostEndpointFailure
	// KubeletCertificateExpires tells when the certificate of a node's kubelet ends that is not renewed. May be nil.
	KubeletCertificateExpires func() *metav1.Time
	// Rule is what the operator says of the addresses of the node.
	Rule nodeaddress.Rule
	// AgentVersion is the version of the running binary.
	AgentVersion string
}

// Facts are what Collect found.
type Facts struct {
	Inventory infrav1.HostInventory
	Software  infrav1.HostSoftware
	Capacity  corev1.ResourceList
	Addresses []clusterv1.MachineAddress
	Services  []infrav1.HostService
	LowDisk   *infrav1.HostLowDisk
	// RebootRequired is nil when the host need not be rebooted.
	RebootRequired *infrav1.HostRebootRequired
	// Both are nil on hosts that are no node, too.
	EndpointFailure           *infrav1.HostEndpointFailure
	KubeletCertificateExpires *metav1.Time
}

// Node is what is known of the node on the host; the zero value of a host that is none.
type Node struct {
	// IPs of the node.
	IPs []netip.Addr
	// VirtualIP is left out of the addresses: it moves between hosts.
	VirtualIP netip.Addr
	// Before are the interfaces that the host had before it became a node; nil when they are not known.
	Before []string
}

// Collect reads everything.
func (c Collector) Collect(ctx context.Context, node Node) (Facts, error) {
	name, err := c.Hostname()
	if err != nil {
		return Facts{}, err
	}
	addresses, err := c.addresses(name, node)
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
		Software:                  software,
		Services:                  c.services(ctx, node),
		LowDisk:                   c.lowDisk(),
		EndpointFailure:           c.endpointFailure(ctx, node),
		KubeletCertificateExpires: c.kubeletCertificateExpires(node),
		RebootRequired:            c.rebootRequired(ctx),
		Addresses:                 addresses,
		Capacity:                  capacity,
		Inventory: infrav1.HostInventory{
			MachineID:          c.line("/etc/machine-id"),
			OperatingSystem:    c.operatingSystem(),
			KernelVersion:      c.line("/proc/sys/kernel/osrelease"),
			Architecture:       runtime.GOARCH,
			AgentVersion:       c.AgentVersion,
			KubernetesVersions: c.Versions(ctx),
			Cgroups:            c.Cgroups(),
			Hardware:           c.Hardware(),
		},
	}, nil
}

// services are those of a host that is a node.
func (c Collector) services(ctx context.Context, node Node) []infrav1.HostService {
	if c.Services == nil || len(node.IPs) == 0 {
		return nil
	}
	return c.Services(ctx)
}

// endpointFailure is that of a host that is a node.
func (c Collector) endpointFailure(ctx context.Context, node Node) *infrav1.HostEndpointFailure {
	if c.EndpointFailure == nil || len(node.IPs) == 0 {
		return nil
	}
	return c.EndpointFailure(ctx)
}

// kubeletCertificateExpires is that of a host that is a node.
func (c Collector) kubeletCertificateExpires(node Node) *metav1.Time {
	if c.KubeletCertificateExpires == nil || len(node.IPs) == 0 {
		return nil
	}
	return c.KubeletCertificateExpires()
}

func (c Collector) lowDisk() *infrav1.HostLowDisk {
	if c.LowDisk == nil {
		return nil
	}
	return c.LowDisk()
}

func (c Collector) rebootRequired(ctx context.Context) *infrav1.HostRebootRequired {
	if c.RebootRequired == nil {
		return nil
	}
	return c.RebootRequired(ctx)
}

// Identity is a text that differs once the machine was renamed, its addresses have changed, its disk is nearly full
// or no longer, it should be rebooted for another reason, or of a node a service is in another state, the endpoint of its cluster is reached
// or no longer, or its kubelet's certificate is not renewed. Of the addresses of a node, to which a network plugin adds some, the node's own
// count. It costs little, as it reads neither routes nor hardware.
func (c Collector) Identity(ctx context.Context, node Node) (string, error) {
	name, err := c.Hostname()
	if err != nil {
		return "", err
	}
	addresses, err := c.Addresses()
	if err != nil {
		return "", err
	}
	texts := []string{}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		ip := prefix.Addr().Unmap()
		counts := err == nil && ip.IsGlobalUnicast() && ip != node.VirtualIP
		if counts && (len(node.IPs) == 0 || slices.Contains(node.IPs, ip)) {
			texts = append(texts, ip.String())
		}
	}
	slices.Sort(texts)
	for _, service := range c.services(ctx, node) {
		texts = append(texts, service.Name+"="+service.State)
	}
	if low := c.lowDisk(); low != nil {
		texts = append(texts, fmt.Sprintf("%s=%d GiB", low.Path, *low.FreeGiB))
	}
	if required := c.rebootRequired(ctx); required != nil {
		texts = append(texts, fmt.Sprintf("reboot=%s %q", required.KernelVersion, required.Packages))
	}
	if failure := c.endpointFailure(ctx, node); failure != nil {
		texts = append(texts, "no "+failure.Server)
	}
	if expires := c.kubeletCertificateExpires(node); expires != nil {
		texts = append(texts, "kubelet until "+expires.UTC().Format(time.RFC3339))
	}
	return name + " " + strings.Join(texts, " "), nil
}

// BootID returns the kernel's ID of this boot; empty when it cannot be read.
func BootID(root hostfs.Root) string {
	data, _ := root.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

func (c Collector) line(path string) string {
	data, _ := c.Root.ReadFile(path)
	return strings.TrimSpace(string(data))
}

// Cgroups asks what the kubelet asks, whether /sys/fs/cgroup is of the one hierarchy; empty where there is nothing.
func (c Collector) Cgroups() infrav1.CgroupVersion {
	entries, err := os.ReadDir(c.Root.Path("/sys/fs/cgroup"))
	switch {
	case err != nil || len(entries) == 0:
		return ""
	case slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "cgroup.controllers" }):
		return infrav1.CgroupV2
	default:
		return infrav1.CgroupV1
	}
}

func (c Collector) operatingSystem() string {
	return OSRelease(func(path string) ([]byte, error) { return c.Root.ReadFile(path) })["PRETTY_NAME"]
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

// addresses are the name and the addresses of the host's own interfaces: those of the node first,
// then those by which the operator or the default route says that others reach the host.
func (c Collector) addresses(name string, node Node) ([]clusterv1.MachineAddress, error) {
	interfaces, err := c.Interfaces()
	if err != nil {
		return nil, err
	}
	chosen, err := c.Rule.Choose(interfaces, nil, node.VirtualIP)
	if err != nil {
		chosen.IPs = nil // The preflight and the bootstrap say so.
	}
	wanted := slices.Concat(node.IPs, chosen.IPs)
	defaultRoute := func(i nodeaddress.Interface) int {
		if i.Default4 || i.Default6 {
			return 0
		}
		return 1
	}
	own := c.Rule.Own(interfaces, node.Before)
	slices.SortStableFunc(own, func(a, b nodeaddress.Interface) int { return defaultRoute(a) - defaultRoute(b) })
	var found []netip.Addr
	for _, ip := range wanted {
		if nodeaddress.On(interfaces, ip) != "" {
			found = append(found, ip)
		}
	}
	for _, i := range own {
		for _, a := range i.Addresses {
			found = append(found, a.Addr)
		}
	}
	all := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: name}}
	known := map[netip.Addr]bool{node.VirtualIP: true}
	for _, ip := range found {
		if !known[ip] {
			all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip.String()})
		}
		known[ip] = true
	}
	return all, nil
}
