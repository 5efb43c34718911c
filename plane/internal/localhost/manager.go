package localhost

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// ErrNotFound means that there is no host of that name.
var ErrNotFound = errors.New("no such host")

// ErrNotRunning means that the host is switched off.
var ErrNotRunning = sandbox.ErrNotRunning

// Manager manages the hosts of one instance. Its fields are set once; its methods
// may be called by several goroutines and processes at a time.
type Manager struct {
	// StateDir is the state directory of the plane, absolute.
	StateDir string
	// Name of the instance: the network namespace and the cgroup parent.
	Name string
	// Bundle is the directory of the node bundle, absolute.
	Bundle string
	// Sandbox is the slipway-sandbox program, absolute. It is needed to boot and to Exec.
	Sandbox string
	// Agent is the slipway-agent program, absolute. Without one hosts have no agent.
	Agent string
	// Cgroups, if set, is used instead of what the machine is found to have.
	Cgroups *cgroup.Layout
}

// Spec is what the caller chooses of a host.
type Spec struct {
	// Name of the host, a DNS label.
	Name string
	// IP in network.Subnet.
	IP netip.Addr
	// Hostname at first boot; default Name.
	Hostname string
	// KubernetesVersion on the host's PATH at first boot, such as v1.36.3; default
	// the bundle's newest. The host offers all of the bundle.
	KubernetesVersion string
	// Files to put on the host; see sandbox.File.
	Files []sandbox.File
	// Units replaces the services of the host; default sandbox.DefaultUnits.
	Units []unit.Unit
}

// IPOf is the address of the nth host, counted from 1.
func IPOf(n int) (netip.Addr, error) {
	const first, last = 11, 199 // up to .10 is the plane's, from .200 on are the virtual IPs
	if n < 1 || first+n-1 > last {
		return netip.Addr{}, fmt.Errorf("host number %d: want 1 to %d", n, last-first+1)
	}
	b := network.Gateway.As4()
	b[3] = byte(first + n - 1)
	return netip.AddrFrom4(b), nil
}

// Dir is the directory of a host.
func (m *Manager) Dir(host string) string { return filepath.Join(m.hostsDir(), host) }

func (m *Manager) hostsDir() string { return filepath.Join(m.StateDir, "hosts") }

// load reads the spec of a host.
func (m *Manager) load(host string) (sandbox.Spec, error) {
	if err := sandbox.ValidateName(host); err != nil {
		return sandbox.Spec{}, err
	}
	s, err := sandbox.LoadSpec(m.Dir(host))
	if errors.Is(err, os.ErrNotExist) {
		return sandbox.Spec{}, fmt.Errorf("host %s: %w; `slipway host list` shows those there are", host, ErrNotFound)
	}
	return s, err
}

// layout is the machine's way of offering control groups.
func (m *Manager) layout() (cgroup.Layout, error) {
	if m.Cgroups != nil {
		return *m.Cgroups, nil
	}
	return cgroup.Detect()
}

// process opens the init of a host; ErrNotRunning if it is off.
func (m *Manager) process(host string) (*process.Process, sandbox.Record, error) {
	r, err := sandbox.LoadRecord(m.Dir(host))
	if errors.Is(err, os.ErrNotExist) {
		return nil, r, ErrNotRunning
	}
	if err != nil {
		return nil, r, err
	}
	p, err := r.Open()
	return p, r, err
}
