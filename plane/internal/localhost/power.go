package localhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

const (
	// bootTimeout is how long a host may take until its services start.
	bootTimeout = 60 * time.Second
	// shutdownTimeout is how long a host may take to shut down before its power is cut.
	shutdownTimeout = 20 * time.Second
	// goneTimeout is how long the kernel may take to clear away a killed host.
	goneTimeout = 20 * time.Second
)

// Boot switches a host on and returns when its services are started. A host that
// is on stays as it is. Its link is as it was: a cut host boots without carrier.
func (m *Manager) Boot(ctx context.Context, host string) error {
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	return m.boot(ctx, host)
}

func (m *Manager) boot(ctx context.Context, host string) error {
	s, err := m.load(host)
	if err != nil {
		return err
	}
	if err := network.Ensure(ctx, m.Name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := m.join(ctx, s); !errors.Is(err, ErrNotRunning) {
		return err
	}
	if s.Cgroups, err = m.layout(); err != nil {
		return err
	}
	// The programs may have moved since the host was created.
	s.Bundle, s.Sandbox, s.Agent = m.Bundle, m.Sandbox, m.Agent
	if err := s.Save(); err != nil {
		return err
	}
	if err := removeGroup(ctx, s); err != nil {
		return err
	}
	if err := guardDevices(s.Cgroups.Guard(m.Name)); err != nil {
		return fmt.Errorf("boot host %s: %w", host, err)
	}
	if err := m.start(ctx, s); err != nil {
		return errors.Join(fmt.Errorf("boot host %s: %w", host, err), m.powerOff(context.WithoutCancel(ctx), host, false))
	}
	return nil
}

// join completes the boot of a host that is on: whoever launched it may have died
// before it was plugged in. ErrNotRunning if it is off, or ends while it boots.
func (m *Manager) join(ctx context.Context, s sandbox.Spec) error {
	p, _, err := m.process(s.Name)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := m.attach(s, p.PID); err != nil {
		if hasEnded(ctx, p, 200*time.Millisecond) {
			return ErrNotRunning
		}
		return err
	}
	for !sandbox.Booted(p) {
		if hasEnded(ctx, p, 20*time.Millisecond) {
			return ErrNotRunning
		}
		if ctx.Err() != nil {
			return fmt.Errorf("host %s is on but does not finish its boot: %w", s.Name, context.Cause(ctx))
		}
	}
	return nil
}

// start launches the host, plugs its cable in and waits for its word.
func (m *Manager) start(ctx context.Context, s sandbox.Spec) error {
	status, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer status.Close()
	cmd := exec.CommandContext(ctx, m.Sandbox, "launch", s.Dir)
	// The lock of the host ends with this process, and so must its launcher: it would
	// record its host over the one of whoever boots next. The kernel sends the signal
	// when the thread ends that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.ExtraFiles = []*os.File{theirs} // becomes sandbox.StatusFD
	// Files, not pipes: the host keeps nothing of the launcher's open, but a pipe would wait for it.
	output, err := os.CreateTemp(s.Dir, "launch.*.log")
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	err = errors.Join(cmd.Run(), theirs.Close())
	if err != nil {
		said, _ := os.ReadFile(output.Name())
		return fmt.Errorf("launch: %w: %s", err, bytes.TrimSpace(said))
	}
	p, _, err := m.process(s.Name)
	if errors.Is(err, ErrNotRunning) {
		return awaitReady(ctx, s, status) // it has gone already, but left word
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if err := m.attach(s, p.PID); err != nil && !hasEnded(ctx, p, 200*time.Millisecond) {
		return err
	}
	return awaitReady(ctx, s, status)
}

// hasEnded gives a host that is about to end a moment to do so: then its own word
// is what counts.
func hasEnded(ctx context.Context, p *process.Process, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Wait(ctx) == nil
}

// awaitReady reads the one line that the init of a host reports.
func awaitReady(ctx context.Context, s sandbox.Spec, status *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = status.SetReadDeadline(time.Now()) })
	defer stop()
	said, err := io.ReadAll(status)
	line := strings.TrimSpace(string(said))
	reason, failed := strings.CutPrefix(line, sandbox.StatusError)
	switch {
	case line == sandbox.StatusReady:
		return nil
	case failed:
		return errors.New(reason)
	case ctx.Err() != nil:
		return fmt.Errorf("not up in time: %w", context.Cause(ctx))
	case err != nil:
		return err
	}
	console, _ := os.ReadFile(filepath.Join(s.Dir, sandbox.InitLog))
	return fmt.Errorf("its init ended at once: %s", bytes.TrimSpace(console[max(0, len(console)-2000):]))
}

func (m *Manager) attach(s sandbox.Spec, pid int) error {
	return network.AttachHost(m.Name, network.Link{Host: s.Name, PID: pid, IP: s.IP, Cut: m.isCut(s.Name)})
}

// PowerOff switches a host off. Without graceful its power is cut: everything on
// it is killed at once, and what it had not written is lost. A graceful shutdown
// that takes too long ends the same way. A host that is off is not an error.
func (m *Manager) PowerOff(ctx context.Context, host string, graceful bool) error {
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := m.load(host); err != nil {
		return err
	}
	if err := m.powerOff(ctx, host, graceful); err != nil {
		return err
	}
	return sandbox.NoteOff(m.Dir(host))
}

func (m *Manager) powerOff(ctx context.Context, host string, graceful bool) error {
	s, err := m.load(host)
	if err != nil {
		return err
	}
	// Switched off from outside, it stays off whatever it asked for.
	if err := sandbox.ForgetReboot(s.Dir); err != nil {
		return err
	}
	p, _, err := m.process(host)
	if err == nil {
		defer p.Close()
		err = stopProcess(ctx, p, graceful)
	}
	if err != nil && !errors.Is(err, ErrNotRunning) {
		return fmt.Errorf("power off host %s: %w", host, err)
	}
	return removeGroup(ctx, s)
}

func stopProcess(ctx context.Context, p *process.Process, graceful bool) error {
	if graceful {
		if err := p.Signal(unix.SIGTERM); err != nil {
			return err
		}
		patience, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		if p.Wait(patience) == nil {
			return nil
		}
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return p.Wait(ctx)
}

// removeGroup removes the host's control groups, and kills what is left in them:
// commands that Exec runs, or a host that its launcher did not live to record.
func removeGroup(ctx context.Context, s sandbox.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return s.Group().Remove(ctx)
}

// PowerCycle cuts the power of a host and switches it on again.
func (m *Manager) PowerCycle(ctx context.Context, host string) error {
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.powerOff(ctx, host, false); err != nil {
		return err
	}
	return m.boot(ctx, host)
}
