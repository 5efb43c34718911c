package effects

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/adopt"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/localetcd"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
	"github.com/slipway-dev/slipway/internal/agent/effects/workload"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// Options of the executor of a real host.
type Options struct {
	// Root is "/" but in tests.
	Root hostfs.Root
	// Identity marks the programs the agent starts.
	Identity string
	// Rule, NodeInterface, KubernetesDirectories and CRISocket as in the agent's configuration.
	Rule                  nodeaddress.Rule
	NodeInterface         string
	KubernetesDirectories []string
	CRISocket             string
	// Node returns the addresses that were decided for the node.
	Node func() []netip.Addr
	// Records is the directory for records of the host.
	Records string
	// Ignore is what a reset leaves alone, and the proof does not name.
	Ignore []reset.Ignored
	// DrainTimeout of an upgrade or a reboot.
	DrainTimeout time.Duration
	// Candidate is what the host may do about the virtual IP.
	Candidate func() vip.Candidate
	Log       *slog.Logger
}

// New returns the executor of the host this process runs on, and the keeper of its
// virtual IP, which runs besides.
func New(o Options) (*Executor, *vip.Keeper) {
	system := command.System{Identity: o.Identity, Log: logFile{root: o.Root}}
	keeper := &vip.Keeper{
		Holder: vip.Holder{Network: vip.Kernel{}, Interface: o.NodeInterface, Node: o.Node, NodeIPs: o.Rule.IPs, Log: o.Log},
		Server: &vip.LocalServer{Root: o.Root, Now: time.Now}, Candidate: o.Candidate, Now: time.Now, Log: o.Log,
	}
	versions := kubelet.Versions{Root: o.Root, Runner: system, Directories: o.KubernetesDirectories, Cache: &kubelet.Cache{}}
	cleaner := reset.Cleaner{
		Root: o.Root, Runner: system, Network: network.Kernel{}, VIP: keeper, Probe: vip.Kernel{}.Probe, CRISocket: o.CRISocket,
		KillInterrupted: system.KillMarked, Log: o.Log, Records: o.Records, Ignore: o.Ignore, Hostname: os.Hostname, SetHostname: setHostname,
		ConnectEtcd: func(manifest *corev1.Pod) (reset.Etcd, error) { return localetcd.Connect(manifest, o.Root.Path) },
	}
	return &Executor{
		DeleteNode: func(ctx context.Context, node *corev1.Node) error {
			return workload.DeleteNode(ctx, o.Root.Path(workload.AdministratorConfig), node)
		},
		Root: o.Root, VIP: keeper, Rule: o.Rule, Interfaces: nodeaddress.Read, Hostname: os.Hostname, Interface: o.networkInterface, Log: o.Log, Versions: versions,
		Upgrader: upgrade.Upgrader{
			Root: o.Root, Runner: system, Versions: versions, DrainTimeout: o.DrainTimeout, Log: o.Log,
			Switch: func(ctx context.Context, version string, progress operation.Progress) error {
				return SelectVersion(ctx, versions, version, progress)
			},
			Connect: func() (upgrade.Node, error) { return workload.Connect(o.Root.Path(workload.KubeletConfig)) },
			ConnectLocal: func() (upgrade.ControlPlane, error) {
				return workload.ConnectLocal(o.Root.Path(workload.KubeletConfig), o.Root.Path(workload.LocalConfig))
			},
			ConnectEtcd: func(manifest *corev1.Pod) (upgrade.Etcd, error) { return localetcd.Connect(manifest, o.Root.Path) },
			HandOver:    keeper.HandOver, CRISocket: o.CRISocket,
			Now: time.Now, Sleep: sleep,
		},
		Applier: bootstrap.Applier{
			Root: o.Root, Runner: system, Shell: bootstrap.Shell{Root: o.Root, System: system},
			Hostname: os.Hostname, SetHostname: setHostname, Keep: cleaner.Keep,
		},
		Cleaner: cleaner,
		Adopter: adopt.Adopter{
			Root: o.Root, Runner: system, Baseline: cleaner.NodeBaseline, Log: o.Log,
			Connect: func(authorities []byte) (adopt.Node, error) {
				return workload.ConnectTrusting(o.Root.Path(workload.KubeletConfig), authorities)
			},
		},
	}, keeper
}

func setHostname(name string) error { return unix.Sethostname([]byte(name)) }

func sleep(ctx context.Context, d time.Duration) error {
	if !backoff.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// logFile appends each write to the log of the bootstrap.
type logFile struct{ root hostfs.Root }

// Write implements io.Writer.
func (l logFile) Write(p []byte) (int, error) {
	f, err := bootstrap.OpenLog(l.root)
	if err != nil {
		// A full disk must not fail the program that is talking.
		return len(p), nil
	}
	defer func() { _ = f.Close() }()
	_, _ = f.Write(p)
	return len(p), nil
}

// networkInterface returns the configured interface of the node, or that of the default route.
func (o Options) networkInterface() string {
	if o.NodeInterface != "" {
		return o.NodeInterface
	}
	// without a default route a template that asks for the interface is refused
	link, _ := vip.Kernel{}.DefaultLink(false)
	if link == "" {
		link, _ = vip.Kernel{}.DefaultLink(true)
	}
	return link
}
