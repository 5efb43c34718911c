package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// MachineError is all that keeps this machine from running a plane, each with
// its remedy.
type MachineError struct{ Findings []localhost.Finding }

func (e *MachineError) Error() string {
	lines := make([]string, 0, len(e.Findings))
	for _, f := range e.Findings {
		lines = append(lines, f.Message+": "+f.Remedy)
	}
	return strings.Join(lines, "\n")
}

// checkMachine finds out what would fail later with a message nobody understands.
func (s *Session) checkMachine(ctx context.Context, step *progress.Step) error {
	on, err := s.hostsThatRun(ctx)
	if err != nil {
		return err
	}
	var fatal, warnings []localhost.Finding
	for _, f := range localhost.Preflight(ctx, localhost.PreflightOptions{
		StateDir: s.Instance.Dir, Name: s.Instance.Name, Hosts: max(0, s.Options.Hosts-on), ControlPlanes: s.controlPlanes(on),
	}) {
		if f.Severity == localhost.SeverityError {
			fatal = append(fatal, f)
		} else {
			warnings = append(warnings, f)
		}
	}
	if len(fatal) > 0 {
		return &MachineError{fatal}
	}
	if err := s.Instance.Network().CheckBeside(); err != nil {
		return err
	}
	if err := s.checkBundle(); err != nil {
		return err
	}
	if err := s.findAway(ctx); err != nil {
		return err
	}
	if err := s.checkPort(); err != nil {
		return err
	}
	if err := s.checkKnownClasses(ctx); err != nil {
		return err
	}
	for _, w := range warnings {
		s.Progress.Note("Warning: " + w.Message + ": " + w.Remedy)
	}
	if s.Options.NoHosts {
		step.Donef("fit for a plane beside %s", s.Instance.Beside)
		return nil
	}
	step.Donef("fit for %d hosts", s.Options.Hosts)
	return nil
}

func (s *Session) hostsThatRun(ctx context.Context) (int, error) {
	hosts, err := s.Hosts.List(ctx)
	if err != nil {
		return 0, err
	}
	on := 0
	for _, h := range hosts {
		if h.State != localhost.StateOff {
			on++
		}
	}
	return on, nil
}

// controlPlanes among the hosts still to be booted.
func (s *Session) controlPlanes(on int) int {
	if s.Options.File == nil || on > 0 {
		return 0
	}
	return s.Options.File.ControlPlanes()
}

// checkBundle looks for the programs of the hosts, and for the Kubernetes versions
// that the clusters want.
func (s *Session) checkBundle() error {
	for _, path := range []string{filepath.Join(s.Hosts.Bundle, "bundle.json"), s.Hosts.Sandbox, s.Hosts.Agent} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: run `make build`, or name the node bundle with --bundle", err)
		}
	}
	bundle, err := localhost.LoadBundle(s.Hosts.Bundle)
	if err != nil {
		return err
	}
	return s.Options.chooseVersion(bundle.KubernetesVersions)
}

// checkPort tries the port, unless the plane itself is what holds it.
func (s *Session) checkPort() error {
	_, running, err := serve.Running(s.Instance.Dir)
	if err != nil || running {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Instance.APIPort)))
	if err != nil {
		return &PortBusyError{Port: s.Instance.APIPort, Err: err}
	}
	return l.Close()
}

// PortBusyError says that the plane's port on this machine is taken.
type PortBusyError struct {
	Port int
	Err  error
}

func (e *PortBusyError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is busy (%v): `ss -ltnp sport = :%d` shows who has it; choose another port with --api-port", e.Port, errors.Unwrap(e.Err), e.Port)
}

func (e *PortBusyError) Unwrap() error { return e.Err }
