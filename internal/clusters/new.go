package clusters

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hosts "github.com/slipway-dev/slipway/internal/host"
)

const (
	// DefaultClass is the ClusterClass that a release brings along.
	DefaultClass = "slipway"
	// LocalClass is the ClusterClass of local hosts, which `slipway up` installs.
	LocalClass = "slipway-local"
	// DefaultPodCIDR is the network of pods of IPv4 that the flannel of host bundles is made for.
	DefaultPodCIDR = "10.244.0.0/16"
	// DefaultPodCIDR6 is that of IPv6.
	DefaultPodCIDR6 = "fd00:10:244::/56"
	// DefaultServiceCIDR is the network of services of IPv4.
	DefaultServiceCIDR = "10.96.0.0/16"
	// DefaultServiceCIDR6 is that of IPv6.
	DefaultServiceCIDR6 = "fd00:10:96::/112"
	// workerClass is the class of workers in the ClusterClasses of Slipway.
	workerClass = "default-worker"
)

// Pool is one pool of workers.
type Pool struct {
	Name     string
	Replicas int32
}

// Options describe a new Cluster.
type Options struct {
	Namespace, Name string
	// Class is the ClusterClass, in the namespace of the Cluster. Default: DefaultClass.
	Class string
	// Version of Kubernetes, with or without the leading v.
	Version string
	// ControlPlanes is how many control planes there are, at least 1.
	ControlPlanes int32
	// Pools are machine pools of the class default-worker.
	Pools []Pool
	// Endpoint is the address of the control plane, as HOST[:PORT]: an unused one of the
	// hosts' network, or that of a load balancer when the class has endpointType External.
	Endpoint string
	// PodCIDR and ServiceCIDR are networks of the cluster: one, or one of each family separated by a
	// comma, the primary one first. Default: those of the families of the other one, or else of the
	// family of Endpoint.
	PodCIDR, ServiceCIDR string
	// Variables of the class, as NAME=VALUE, where VALUE is YAML.
	Variables []string
	// Network is what brings the pod network; the zero value is none.
	Network Network
}

// InvalidError says which option is wrong, and what it should be.
type InvalidError struct{ Option, Problem string }

func (e *InvalidError) Error() string { return e.Option + ": " + e.Problem }

func invalid(option, format string, args ...any) error {
	return &InvalidError{option, fmt.Sprintf(format, args...)}
}

// New returns the objects of a Cluster in the order in which to create them: the Cluster
// is the last, so that one which exists is whole.
func New(o Options) ([]client.Object, error) {
	cluster, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	network, err := o.Network.objects(cluster)
	if err != nil {
		return nil, err
	}
	return append(network, healthCheck(cluster), cluster), nil
}

func newCluster(o Options) (*clusterv1.Cluster, error) {
	version, err := parseVersion(o.Version)
	if err != nil {
		return nil, err
	}
	if len(validation.IsDNS1123Label(o.Name)) > 0 {
		return nil, invalid("name", "%q is not a name of at most 63 lower-case letters, digits and '-'", o.Name)
	}
	if err := checkControlPlanes(o.ControlPlanes); err != nil {
		return nil, err
	}
	pools, err := pools(o.Pools)
	if err != nil {
		return nil, err
	}
	variables, err := variables(o.Endpoint, o.Variables)
	if err != nil {
		return nil, err
	}
	network, err := clusterNetwork(o)
	if err != nil {
		return nil, err
	}
	cluster := &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
	}
	cluster.Spec.ClusterNetwork = network
	cluster.Spec.Topology = clusterv1.Topology{
		ClassRef:     clusterv1.ClusterClassRef{Name: cmp.Or(o.Class, DefaultClass)},
		Version:      version,
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(o.ControlPlanes)},
		Workers:      clusterv1.WorkersTopology{MachinePools: pools},
		Variables:    variables,
	}
	return cluster, nil
}

// clusterNetwork are the networks of pods and services, which have the same families and the same primary one:
// kubeadm wants that, and a node has an address of each.
func clusterNetwork(o Options) (clusterv1.ClusterNetwork, error) {
	pods, err := parseNetworks("--pod-cidr", o.PodCIDR, DefaultPodCIDR+" or "+DefaultPodCIDR+","+DefaultPodCIDR6)
	if err != nil {
		return clusterv1.ClusterNetwork{}, err
	}
	services, err := parseNetworks("--service-cidr", o.ServiceCIDR, DefaultServiceCIDR+" or "+DefaultServiceCIDR+","+DefaultServiceCIDR6)
	if err != nil {
		return clusterv1.ClusterNetwork{}, err
	}
	host, _, _ := splitEndpoint(o.Endpoint)
	endpoint, err := netip.ParseAddr(host)
	hasEndpoint := err == nil // A load balancer may have a name.
	families := familiesOf(slices.Concat(pods, services))
	if len(families) == 0 {
		families = []bool{hasEndpoint && endpoint.Is6()}
	}
	if pods == nil {
		pods = defaults(families, DefaultPodCIDR, DefaultPodCIDR6)
	}
	if services == nil {
		services = defaults(families, DefaultServiceCIDR, DefaultServiceCIDR6)
	}
	switch {
	case !slices.Equal(familiesOf(pods), familiesOf(services)):
		return clusterv1.ClusterNetwork{}, invalid("--service-cidr", "%s must have the families of --pod-cidr %s, the same one first", join(services), join(pods))
	case hasEndpoint && !slices.Contains(o.Variables, "endpointType=External") && !slices.Contains(familiesOf(services), endpoint.Is6()):
		return clusterv1.ClusterNetwork{}, invalid("--endpoint", "%s is not of a family of the cluster's networks, %s: hosts that have no other address do not reach it", host, join(pods))
	}
	for _, n := range services {
		if n.Addr().Is6() && n.Bits() < largestServiceNetwork6 {
			return clusterv1.ClusterNetwork{}, invalid("--service-cidr", "%s: the API server takes no network of IPv6 larger than a /%d, such as %s", n, largestServiceNetwork6, DefaultServiceCIDR6)
		}
	}
	return clusterv1.ClusterNetwork{
		Pods:          clusterv1.NetworkRanges{CIDRBlocks: texts(pods)},
		Services:      clusterv1.NetworkRanges{CIDRBlocks: texts(services)},
		ServiceDomain: "cluster.local",
	}, nil
}

// largestServiceNetwork6 leaves the 20 bits that kube-apiserver allocates.
const largestServiceNetwork6 = 108

// parseNetworks reads one network, or one of each family separated by a comma.
func parseNetworks(option, value, example string) ([]netip.Prefix, error) {
	if value == "" {
		return nil, nil
	}
	var networks []netip.Prefix
	for text := range strings.SplitSeq(value, ",") {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Addr().Is4In6() {
			return nil, invalid(option, "%q is not a network such as %s", text, example)
		}
		networks = append(networks, network.Masked())
	}
	if len(familiesOf(networks)) != len(networks) {
		return nil, invalid(option, "%s has two networks of one family; give one of each, such as %s", value, example)
	}
	return networks, nil
}

// familiesOf are those of networks, each once; true is IPv6.
func familiesOf(networks []netip.Prefix) (v6 []bool) {
	for _, n := range networks {
		if !slices.Contains(v6, n.Addr().Is6()) {
			v6 = append(v6, n.Addr().Is6())
		}
	}
	return v6
}

func defaults(v6 []bool, four, six string) (networks []netip.Prefix) {
	for _, v6 := range v6 {
		text := four
		if v6 {
			text = six
		}
		networks = append(networks, netip.MustParsePrefix(text))
	}
	return networks
}

func texts(networks []netip.Prefix) (all []string) {
	for _, n := range networks {
		all = append(all, n.String())
	}
	return all
}

func join(networks []netip.Prefix) string { return strings.Join(texts(networks), ",") }

func parseVersion(version string) (string, error) {
	parsed, err := utilversion.ParseSemantic(version)
	if err != nil {
		return "", invalid("--kubernetes-version", "%q is not a version such as v1.36.3", version)
	}
	return "v" + parsed.String(), nil
}

func checkControlPlanes(n int32) error {
	if n < 1 || n%2 == 0 {
		return invalid("--control-planes", "%d: use 1, 3 or 5; etcd on an even number survives no more failures than on one less", n)
	}
	return nil
}

func pools(wanted []Pool) ([]clusterv1.MachinePoolTopology, error) {
	var all []clusterv1.MachinePoolTopology
	for _, p := range wanted {
		if len(validation.IsDNS1123Label(p.Name)) > 0 {
			return nil, invalid("--pool", "%q is not a name of at most 63 lower-case letters, digits and '-'", p.Name)
		}
		if slices.ContainsFunc(all, func(other clusterv1.MachinePoolTopology) bool { return other.Name == p.Name }) {
			return nil, invalid("--pool", "%s is given twice", p.Name)
		}
		all = append(all, clusterv1.MachinePoolTopology{Class: workerClass, Name: p.Name, Replicas: ptr.To(p.Replicas)})
	}
	return all, nil
}

// ParsePools reads NAME=REPLICAS.
func ParsePools(values []string) ([]Pool, error) {
	var all []Pool
	for _, value := range values {
		name, count, _ := strings.Cut(value, "=")
		replicas, err := strconv.ParseInt(count, 10, 32)
		if err != nil || replicas < 0 || name == "" {
			return nil, invalid("--pool", "%q is not NAME=REPLICAS, such as pool=3", value)
		}
		all = append(all, Pool{name, int32(replicas)})
	}
	return all, nil
}

// variables of the class: those that Slipway's classes have for the endpoint, and others.
func variables(endpoint string, others []string) ([]clusterv1.ClusterVariable, error) {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	values := map[string]any{"controlPlaneEndpointHost": host}
	names := []string{"controlPlaneEndpointHost"}
	if why := hosts.RefusePort(int32(port)); why != "" && !slices.Contains(others, "endpointType=External") {
		return nil, invalid("--endpoint", "%s: %s", endpoint, why)
	}
	if port > 0 {
		names, values["controlPlaneEndpointPort"] = append(names, "controlPlaneEndpointPort"), port
	}
	for _, other := range others {
		name, text, found := strings.Cut(other, "=")
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); !found || name == "" || err != nil {
			return nil, invalid("--set", "%q is not NAME=VALUE with YAML as the value, such as workerHostLabels={disk: ssd}", other)
		}
		if read, err := json.Marshal(value); err != nil || !asWritten(text, value) {
			return nil, invalid("--set", "%s: YAML reads %q as %s; put quotes around a text, as in %s='%s', and write other values so", name, text, read, name, strconv.Quote(text))
		}
		if slices.Contains(names, name) {
			return nil, invalid("--set", "%s is given twice; --endpoint sets controlPlaneEndpointHost and controlPlaneEndpointPort", name)
		}
		names, values[name] = append(names, name), value
	}
	var all []clusterv1.ClusterVariable
	for _, name := range names {
		data, err := json.Marshal(values[name])
		if err != nil {
			return nil, invalid("--set", "%s: %v", name, err)
		}
		all = append(all, clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: data}})
	}
	return all, nil
}

// asWritten says whether a value is what its text says without a knowledge of YAML: no comment, anchor or tag of it is
// lost, and no number or truth value is another one. Quotes, lists and objects are meant.
func asWritten(text string, value any) bool {
	switch value := value.(type) {
	case string:
		return value == text || strings.IndexAny(text, `"'|>`) == 0
	case nil:
		return text == "" || text == "null"
	case bool:
		return text == strconv.FormatBool(value)
	case float64:
		return text == strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return strings.IndexAny(text, "[{") == 0 || strings.Contains(text, "\n")
	}
}

// splitEndpoint reads HOST[:PORT]; IPv6 addresses with a port are in brackets. The port is 0
// when there is none.
func splitEndpoint(endpoint string) (host string, port int, err error) {
	wrong := invalid("--endpoint", "%q is not HOST[:PORT]: an unused address of the hosts' network, or your load balancer", endpoint)
	host = strings.TrimSuffix(strings.TrimPrefix(endpoint, "["), "]")
	if h, p, err := net.SplitHostPort(endpoint); err == nil {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return "", 0, wrong
		}
		host = h
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Zone() == "":
		return ip.Unmap().String(), port, nil
	case err == nil, len(validation.IsDNS1123Subdomain(host)) > 0:
		return "", 0, wrong
	}
	return host, port, nil
}

// unhealthyAfter is how long the Node of a pool is silent until its machine counts as
// unhealthy, in seconds.
const unhealthyAfter = 900

// healthCheck finds unhealthy machines of the pools. A ClusterClass has health checks for
// its control plane and its machine deployments, not for machine pools; this one is that of
// the released template.
func healthCheck(cluster *clusterv1.Cluster) *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineHealthCheck"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-pools"},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: cluster.Name,
			Selector:    metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: clusterv1.MachinePoolNameLabel, Operator: metav1.LabelSelectorOpExists}}},
			Checks: clusterv1.MachineHealthCheckChecks{
				NodeStartupTimeoutSeconds: ptr.To[int32](0),
				UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
					{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](unhealthyAfter)},
				},
			},
		},
	}
}

// errNoTopology says that a Cluster was not made of a ClusterClass.
var errNoTopology = errors.New("it has no topology")
