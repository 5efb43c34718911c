package localhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// State of a host.
type State string

// States of a host.
const (
	// StateRunning: on and connected.
	StateRunning State = "running"
	// StateCut: on, its network is cut.
	StateCut State = "cut"
	// StateOff: switched off, or never switched on.
	StateOff State = "off"
)

// Namespace that local hosts enroll into.
const Namespace = "default"

// Host is what can be seen of a host from outside.
type Host struct {
	Name  string     `json:"name"`
	IP    netip.Addr `json:"ip"`
	State State      `json:"state"`
	// Cut tells that the network is cut, also of a host that is off.
	Cut bool `json:"cut,omitempty"`
	// PID of the host's init on the machine, 0 if it is off.
	PID int `json:"pid,omitempty"`
	// BootID as the host sees it, of a host that is on.
	BootID string `json:"bootID,omitempty"`
	// MachineID as the host sees it.
	MachineID string `json:"machineID"`
	// Started is when a host that is on was switched on.
	Started *time.Time `json:"started,omitempty"`
}

// List returns all hosts, sorted by name. It takes no lock.
func (m *Manager) List(_ context.Context) ([]Host, error) {
	names, err := m.names()
	if err != nil {
		return nil, err
	}
	hosts := make([]Host, 0, len(names))
	for _, name := range names {
		h, err := m.inspect(name)
		if errors.Is(err, ErrNotFound) {
			continue // destroyed in the meantime
		}
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// Get returns one host.
func (m *Manager) Get(_ context.Context, host string) (Host, error) { return m.inspect(host) }

func (m *Manager) inspect(name string) (Host, error) {
	s, err := m.load(name)
	if err != nil {
		return Host{}, err
	}
	h := Host{Name: name, IP: s.IP, State: StateOff, MachineID: s.MachineID, Cut: m.isCut(name)}
	p, r, err := m.process(name)
	if errors.Is(err, ErrNotRunning) {
		return h, nil
	}
	if err != nil {
		return Host{}, err
	}
	defer p.Close()
	h.PID, h.BootID, h.Started, h.State = p.PID, r.BootID, &r.Started, StateRunning
	// The link itself has the last word on whether it is cut.
	link, err := network.StateOf(m.Name, name)
	if err != nil {
		return Host{}, err
	}
	if link != network.LinkUp {
		h.State = StateCut
	}
	return h, nil
}

// Stdio are the streams of a command; nil is nothing. A terminal should be passed
// as the *os.File it is.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// execPatience is the time between SIGTERM and SIGKILL for a command whose context ended.
const execPatience = 5 * time.Second

// Command returns a command that runs argv on a host, as root, with the host's
// namespaces and control groups. The caller sets its streams and runs it; its exit
// code is that of argv, or sandbox.ExecFailed.
func (m *Manager) Command(ctx context.Context, host string, argv ...string) (*exec.Cmd, error) {
	if _, err := m.load(host); err != nil {
		return nil, err
	}
	p, _, err := m.process(host)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", host, err)
	}
	p.Close()
	cmd := exec.CommandContext(ctx, m.Sandbox, append([]string{"exec", m.Dir(host)}, argv...)...)
	// Passed on to the command on the host.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = execPatience
	return cmd, nil
}

// Exec runs argv on a host with the streams given (nil is nothing) and returns its
// exit code. The error is about what kept argv from running.
func (m *Manager) Exec(ctx context.Context, host string, argv []string, stdio Stdio) (int, error) {
	cmd, err := m.Command(ctx, host, argv...)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio.In, stdio.Out, stdio.Err
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// OpenLog opens the log of a service of a host ("init" for its console), or an older one by what its name ends with, such as ".1".
func (m *Manager) OpenLog(host, service, rotated string) (*os.File, error) {
	s, err := m.load(host)
	if err != nil {
		return nil, err
	}
	path, err := s.LogPath(service)
	if err != nil {
		return nil, err
	}
	return sandbox.Open(s.Dir, path+rotated)
}
