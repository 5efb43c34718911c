package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The kind of the file.
const (
	APIVersion = "agent.slipway.dev/v1alpha1"
	Kind       = "AgentConfiguration"
)

// DefaultPath is where the file is looked for.
const DefaultPath = "/etc/slipway/agent.yaml"

// AgentConfiguration is the content of the file.
type AgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// Namespace of the Host in the management cluster. Required.
	Namespace string `json:"namespace,omitempty"`
	// HostName is the name of the Host, a DNS name of at most 63 characters.
	// Defaults to the host name of the machine at the first start; it is kept
	// then, whatever the machine is called later.
	HostName string `json:"hostName,omitempty"`
	// BootstrapKubeconfig names the server and holds the bootstrap token.
	// Defaults to /etc/slipway/bootstrap-kubeconfig.
	BootstrapKubeconfig string `json:"bootstrapKubeconfig,omitempty"`
	// StateDir keeps the identity key, the certificate and the journal.
	// Defaults to /var/lib/slipway-agent.
	StateDir string `json:"stateDir,omitempty"`
	// HeartbeatInterval between renewals of the Lease. Defaults to 10s. With many
	// hosts the management cluster asks for a longer one.
	HeartbeatInterval metav1.Duration `json:"heartbeatInterval,omitempty"`
	// LeaseDuration after which a silent agent counts as away. Defaults to 40s;
	// at least twice the interval, and at most an hour.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// NodeIP is the address of the node, or one of IPv4 and one of IPv6 with a comma between
	// them. The kubelet gets it (--node-ip), the API server of a control plane is advertised at it,
	// and it is reported first. Without it the node has the address in NodeIPNetworks, of
	// NodeIPInterface, or else of the interface of the default route, for each family. It is
	// decided when the host is bootstrapped, and stays until it is reset.
	NodeIP string `json:"nodeIP,omitempty"`
	// NodeIPNetworks are networks, such as 10.0.0.0/24, that hold the address of the node. One
	// configuration then fits all hosts.
	NodeIPNetworks []string `json:"nodeIPNetworks,omitempty"`
	// NodeIPInterface is the interface whose address is that of the node.
	NodeIPInterface string `json:"nodeIPInterface,omitempty"`
	// NodeInterface holds the virtual IP. Defaults to the interface of the node's address.
	NodeInterface string `json:"nodeInterface,omitempty"`
	// KubernetesDirectories hold one directory per installed version, with
	// kubelet, kubeadm and kubectl. Defaults to /opt/slipway/kubernetes.
	KubernetesDirectories []string `json:"kubernetesDirectories,omitempty"`
	// CRISocket of the container runtime. Defaults to
	// /run/containerd/containerd.sock.
	CRISocket string `json:"criSocket,omitempty"`
	// DrainTimeout is how long pods, or disruption budgets, may hold up the upgrade
	// of this host to another Kubernetes version, or its reboot. Defaults to 10m.
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`
	// Software says who brings Kubernetes versions onto this host.
	Software Software `json:"software,omitempty"`
	// Clean says what belongs to this host although it was not there before a claim.
	Clean Clean `json:"clean,omitempty"`
	// HealthAddress to serve /healthz, /readyz and /metrics on: a loopback
	// address with a port, or unix: and a path. Empty serves nothing.
	HealthAddress string `json:"healthAddress,omitempty"`
}

// NotFoundError says that there is no configuration. It wraps fs.ErrNotExist.
type NotFoundError struct{ Path string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the configuration %s does not exist; create it with apiVersion: %s, kind: %s and namespace", e.Path, APIVersion, Kind)
}

// Unwrap returns fs.ErrNotExist.
func (*NotFoundError) Unwrap() error { return fs.ErrNotExist }

// Default returns a configuration that holds the defaults only. It is not valid: it
// names no namespace.
func Default() *AgentConfiguration {
	c := &AgentConfiguration{}
	c.setDefaults()
	return c
}

// Load reads and checks the file and fills in the defaults.
func Load(path string) (*AgentConfiguration, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{path}
	}
	if err != nil {
		return nil, err
	}
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("the configuration %s: %w", path, err)
	}
	return c, nil
}

func parse(data []byte) (*AgentConfiguration, error) {
	body, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	c := &AgentConfiguration{}
	unknown, err := kjson.UnmarshalStrict(body, c)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, err
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return nil, fmt.Errorf("apiVersion and kind must be %s and %s, not %q and %q", APIVersion, Kind, c.APIVersion, c.Kind)
	}
	c.setDefaults()
	return c, c.validate()
}

func (c *AgentConfiguration) setDefaults() {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.BootstrapKubeconfig, "/etc/slipway/bootstrap-kubeconfig"},
		{&c.StateDir, "/var/lib/slipway-agent"},
		{&c.CRISocket, "/run/containerd/containerd.sock"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.HeartbeatInterval.Duration == 0 {
		c.HeartbeatInterval.Duration = 10 * time.Second
	}
	if c.LeaseDuration.Duration == 0 {
		c.LeaseDuration.Duration = 40 * time.Second
	}
	if c.DrainTimeout.Duration == 0 {
		c.DrainTimeout.Duration = 10 * time.Minute
	}
	c.Software.setDefaults()
	if len(c.KubernetesDirectories) == 0 {
		c.KubernetesDirectories = []string{"/opt/slipway/kubernetes"}
	}
}

func (c *AgentConfiguration) validate() error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s %s", field, fmt.Sprintf(format, args...)))
	}
	if len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		fail("namespace", "is required and must be the name of a namespace, not %q", c.Namespace)
	}
	if c.HostName != "" && ValidateHostName(c.HostName) != nil {
		fail("hostName", "%s", ValidateHostName(c.HostName))
	}
	for field, path := range map[string]string{"bootstrapKubeconfig": c.BootstrapKubeconfig, "stateDir": c.StateDir, "criSocket": c.CRISocket} {
		if !filepath.IsAbs(path) {
			fail(field, "must be an absolute path, not %q", path)
		}
	}
	for _, dir := range c.KubernetesDirectories {
		if !filepath.IsAbs(dir) {
			fail("kubernetesDirectories", "must be absolute paths, not %q", dir)
		}
	}
	if c.HeartbeatInterval.Duration < time.Second {
		fail("heartbeatInterval", "must be at least 1s, not %s", c.HeartbeatInterval.Duration)
	}
	if c.LeaseDuration.Duration > maxLeaseDuration {
		fail("leaseDuration", "must be at most %s, not %s", maxLeaseDuration, c.LeaseDuration.Duration)
	}
	if c.LeaseDuration.Duration < 2*c.HeartbeatInterval.Duration {
		fail("leaseDuration", "must be at least twice heartbeatInterval, not %s", c.LeaseDuration.Duration)
	}
	if c.DrainTimeout.Duration < time.Second {
		fail("drainTimeout", "must be at least 1s, not %s", c.DrainTimeout.Duration)
	}
	if ips, err := c.NodeIPs(); err != nil || len(ips) > 2 || len(ips) == 2 && ips[0].Is4() == ips[1].Is4() {
		fail("nodeIP", "must be an IP address, or one of IPv4 and one of IPv6 with a comma between them, not %q", c.NodeIP)
	}
	if _, err := c.Networks(); err != nil {
		fail("nodeIPNetworks", "must be networks such as 10.0.0.0/24, not %q", c.NodeIPNetworks)
	}
	c.Software.validate(fail)
	if err := validateHealthAddress(c.HealthAddress); err != nil {
		fail("healthAddress", "%s", err)
	}
	return errors.Join(errs...)
}

// NodeIPs are the addresses in NodeIP.
func (c *AgentConfiguration) NodeIPs() ([]netip.Addr, error) {
	if c.NodeIP == "" {
		return nil, nil
	}
	var all []netip.Addr
	for text := range strings.SplitSeq(c.NodeIP, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		all = append(all, ip.Unmap())
	}
	return all, nil
}

// Networks are those of NodeIPNetworks.
func (c *AgentConfiguration) Networks() ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(c.NodeIPNetworks))
	for _, text := range c.NodeIPNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// maxLeaseDuration is what the admission policy of the management cluster lets an agent write. One
// with longer intervals, of ten minutes at most, keeps below it.
const maxLeaseDuration = time.Hour

// ValidateHostName checks the name of a Host.
func ValidateHostName(name string) error {
	if len(name) > validation.DNS1123LabelMaxLength || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("must be a lower-case DNS name of at most %d characters, not %q; set hostName in the agent's configuration", validation.DNS1123LabelMaxLength, name)
	}
	return nil
}

// validateHealthAddress keeps the endpoints, which need no login, on the host.
func validateHealthAddress(address string) error {
	if path, isUnix := strings.CutPrefix(address, "unix:"); address == "" || isUnix && filepath.IsAbs(path) {
		return nil
	}
	if ap, err := netip.ParseAddrPort(address); err != nil || !ap.Addr().IsLoopback() {
		return fmt.Errorf("must be a loopback address with a port, such as 127.0.0.1:10270, or unix: and an absolute path, not %q", address)
	}
	return nil
}
