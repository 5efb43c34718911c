package executor

import (
	"log/slog"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/command"
	"github.com/slipway-dev/slipway/internal/agent/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/network"
	"github.com/slipway-dev/slipway/internal/agent/reset"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// Options of the executor of a real host.
type Options struct {
	// Root is "/" but in tests.
	Root hostfs.Root
	// Identity marks the programs the agent starts.
	Identity string
	// NodeIP, NodeInterface, KubernetesDirectories and CRISocket as in the
	// agent's configuration.
	NodeIP, NodeInterface string
	KubernetesDirectories []string
	CRISocket             string
	Log                   *slog.Logger
}

// New returns the executor of the host this process runs on.
func New(o Options) *Executor {
	system := command.System{Identity: o.Identity, Log: &logFile{path: o.Root.Path(bootstrap.LogFile)}}
	nodeIP, _ := netip.ParseAddr(o.NodeIP)
	holder := vip.Holder{Network: vip.Kernel{}, Interface: o.NodeInterface, NodeIP: nodeIP, Log: o.Log}
	return &Executor{
		Root: o.Root, VIP: holder, NodeIP: o.NodeIP, Hostname: os.Hostname, Log: o.Log,
		Versions: kubelet.Versions{Root: o.Root, Runner: system, Directories: o.KubernetesDirectories, Cache: &kubelet.Cache{}},
		Applier: bootstrap.Applier{
			Root: o.Root, Runner: system, Shell: bootstrap.Shell{Root: o.Root, System: system},
			SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) },
		},
		Cleaner: reset.Cleaner{
			Root: o.Root, Runner: system, Network: network.Kernel{}, VIP: holder, CRISocket: o.CRISocket,
			KillInterrupted: system.KillMarked, Log: o.Log,
		},
	}
}

// logFile appends each write to a file that only root may read.
type logFile struct{ path string }

// Write implements io.Writer.
func (l *logFile) Write(p []byte) (int, error) {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		// A full disk must not fail the program that is talking.
		return len(p), nil
	}
	defer func() { _ = f.Close() }()
	_, _ = f.Write(p)
	return len(p), nil
}
