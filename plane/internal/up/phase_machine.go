package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
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
	there, on, err := s.hostsThatRun(ctx)
	if err != nil {
		return err
	}
	s.hostless = s.Options.NoHosts && there == 0
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
	if !s.hostless {
		if err := s.checkBundle(); err != nil {
			return err
		}
	}
	if err := s.findAway(ctx); err != nil {
		return err
	}
	if err := s.checkPort(ctx); err != nil {
		return err
	}
	for _, program := range []string{s.Lifecycle, s.Hosts.Sandbox} {
		if err := component.CheckProgram(program); err != nil {
			return err
		}
	}
	if err := s.checkKnownClasses(ctx); err != nil {
		return err
	}
	for _, w := range warnings {
		s.Progress.Note("Warning: " + w.Message + ": " + w.Remedy)
	}
	switch {
	case s.Instance.Beside != "":
		step.Donef("fit for a plane beside %s", s.Instance.Beside)
	case s.hostless:
		step.Donef("fit for a plane without local hosts")
	default:
		step.Donef("fit for %d hosts", s.Options.Hosts)
	}
	return nil
}

// hostsThatRun counts the hosts of earlier runs, and those of them that are on.
func (s *Session) hostsThatRun(ctx context.Context) (there, on int, _ error) {
	hosts, err := s.Hosts.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, h := range hosts {
		if h.State != localhost.StateOff {
			on++
		}
	}
	return len(hosts), on, nil
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
			return fmt.Errorf("%w: local hosts need slipway-node-bundle of the release beside slipway, or `make build` in the source tree; --bundle names another directory", err)
		}
	}
	bundle, err := localhost.LoadBundle(s.Hosts.Bundle)
	if err != nil {
		return err
	}
	return s.Options.chooseVersion(bundle.KubernetesVersions)
}

// checkPort tries the ports, unless the plane itself is what holds them. One that is to be
// started anew, to listen elsewhere, does not hold all of them yet.
func (s *Session) checkPort(ctx context.Context) error {
	_, running, err := statedir.Running(s.Instance.Dir)
	if err != nil {
		return err
	}
	if running {
		if record := statedir.Current(s.Instance.Dir); record == nil || !outdated(record, s.Instance.Config) {
			return nil
		}
		return CheckListen(ctx, s.Instance.Dir, s.Instance.Config)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Instance.APIPort)))
	if err != nil {
		return &PortBusyError{Port: s.Instance.APIPort, Err: err}
	}
	return errors.Join(l.Close(), CheckListen(ctx, s.Instance.Dir, s.Instance.Config))
}

// CheckListen finds out whether this machine can listen where hosts on other machines are
// to reach the plane. What the plane that runs holds itself is free once it is started anew,
// which is not for `slipway up` to do with one that it did not start: a *ForegroundError.
func CheckListen(ctx context.Context, stateDir string, config instance.Config) error {
	at, err := config.ListensAt()
	if err != nil {
		return err
	}
	record := statedir.Current(stateDir)
	if record != nil && record.Foreground && outdated(record, config) {
		return &ForegroundError{PID: record.PID, Config: config}
	}
	if at == nil {
		return nil
	}
	var held, bundles []netip.AddrPort
	if record != nil && record.Outside != nil {
		held = record.Outside.Held()
	}
	for _, h := range held {
		bundles = append(bundles, netip.AddrPortFrom(h.Addr(), h.Port()+1))
	}
	if err := network.TryListenAt(ctx, at.Host, at.Port, held); err != nil {
		return err
	}
	if err := network.TryListenAt(ctx, at.Host, at.BundlePort(), bundles); err != nil {
		return fmt.Errorf("host bundles are served at the port after the one of --listen: %w", err)
	}
	return nil
}

// outdated says whether a plane listens for other machines elsewhere than was chosen.
func outdated(record *statedir.Status, config instance.Config) bool {
	was := cmp.Or(record.Outside, &statedir.Outside{})
	return was.Listen != config.Listen || was.TLSNames != config.TLSNames
}

// ForegroundError says that a plane which somebody else started, such as a service manager,
// would have to be started anew.
type ForegroundError struct {
	PID    int
	Config instance.Config
}

func (e *ForegroundError) Error() string {
	return fmt.Sprintf("--listen=%[1]s --tls-san=%[2]s: the plane, process %[3]d, was not started by `slipway up`, which cannot start it anew: stop it where it was started, and start it there with `slipway serve --listen=%[1]s --tls-san=%[2]s`", e.Config.Listen, e.Config.TLSNames, e.PID)
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
