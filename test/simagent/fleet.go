package simagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link"
)

// Defaults of Options, those of slipway-agent.
const (
	DefaultHeartbeatInterval = 10 * time.Second
	DefaultLeaseDuration     = 40 * time.Second
)

// Options of a Fleet. Config, Namespace and Nodes are required.
type Options struct {
	// Config reaches the management cluster as somebody who may impersonate the
	// agents and create Hosts.
	Config *rest.Config
	// Namespace of the Hosts.
	Namespace string
	// Nodes makes and removes the Nodes of the workload cluster.
	Nodes Nodes
	// Version is the Kubernetes version that the hosts offer.
	Version string
	// MoreVersions are those that they offer besides. Default none.
	MoreVersions []string
	// Bootstrap is how long a bootstrap takes. Default none.
	Bootstrap time.Duration
	// HeartbeatInterval and LeaseDuration default to the agent's own.
	HeartbeatInterval, LeaseDuration time.Duration
	// Log of the agents. Default none.
	Log *slog.Logger
	// Wrap may put another executor around that of a host, to hold it up or to make
	// it fail. Default none.
	Wrap func(name string, inner operation.Executor) operation.Executor
}

// Fleet is a number of simulated hosts.
type Fleet struct {
	options Options
	// Requests counts what the agents asked of the management cluster.
	Requests Requests

	group errgroup.Group
}

// machines counts the simulated hosts of all fleets: no two are the same machine.
var machines atomic.Int64

// New returns a Fleet without hosts.
func New(o Options) (*Fleet, error) {
	if o.Config == nil || o.Namespace == "" || o.Nodes == nil {
		return nil, errors.New("simagent: Config, Namespace and Nodes are required")
	}
	if o.HeartbeatInterval == 0 {
		o.HeartbeatInterval = DefaultHeartbeatInterval
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{options: o}, nil
}

// Enrolled is the Host that the enrollment of a machine of this name leaves.
func Enrolled(namespace, name string) *infrav1.Host {
	return &infrav1.Host{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{infrav1.HostFinalizer}},
		Spec:       infrav1.HostSpec{HostID: "simulated-" + name},
	}
}

// Start runs the agent of an enrolled host until the context ends. It does not
// block.
func (f *Fleet) Start(ctx context.Context, name string) error {
	o := f.options
	config := rest.CopyConfig(o.Config)
	config.UserAgent = "slipway-agent"
	config.Impersonate = rest.ImpersonationConfig{
		UserName: infrav1.AgentUser(o.Namespace, name, Enrolled(o.Namespace, name).Spec.HostID), Groups: []string{infrav1.AgentGroup, "system:authenticated"},
	}
	config.Wrap(f.Requests.Count)
	number := machines.Add(1)
	bootID := fmt.Sprintf("simulated-boot-%d", number)
	var effects operation.Executor = &executor{nodes: o.Nodes, name: name, version: o.Version, duration: o.Bootstrap}
	if o.Wrap != nil {
		effects = o.Wrap(name, effects)
	}
	a, err := link.New(link.Options{
		Namespace: o.Namespace, HostName: name, HostID: "simulated-" + name, BootID: bootID,
		Config: config, Journal: journal.InMemory(), Log: o.Log,
		Executor: effects, Inventory: facts(name, number, append([]string{o.Version}, o.MoreVersions...)...), HeartbeatInterval: o.HeartbeatInterval, LeaseDuration: o.LeaseDuration,
	})
	if err != nil {
		return err
	}
	f.group.Go(func() error {
		a.Run(ctx)
		return nil
	})
	return nil
}

// Wait returns when the agents have stopped, after the end of their context.
func (f *Fleet) Wait() { _ = f.group.Wait() }

// facts is the inventory of the n-th host: a machine of middle size.
func facts(name string, n int64, versions ...string) func(context.Context, inventory.Node) (inventory.Facts, error) {
	collected := inventory.Facts{
		Inventory: infrav1.HostInventory{
			MachineID: fmt.Sprintf("%032x", n), OperatingSystem: "Debian GNU/Linux 12 (bookworm)", KernelVersion: "6.1.0-28-amd64",
			Architecture: "amd64", AgentVersion: "simulated", KubernetesVersions: versions,
		},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		},
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", 64+n>>16&63, n>>8&255, n&255)},
			{Type: clusterv1.MachineHostName, Address: name},
		},
	}
	return func(context.Context, inventory.Node) (inventory.Facts, error) { return collected, nil }
}
