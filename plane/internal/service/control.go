package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Service is the unit of a plane that is installed.
type Service struct {
	// Name of the unit.
	Name string
	// path of its file.
	path string
}

// State is what systemd says of a unit, in systemd's words.
type State struct {
	// Active is such as active, activating, inactive or failed; Sub is more exact, such as
	// running or auto-restart.
	Active, Sub string
	// Restarts is how often systemd started it again since somebody started it last, as after a crash.
	Restarts string
	// Enabled says that it starts with the machine.
	Enabled bool
	// outdated says that systemd has not read the file since it was written.
	outdated bool
}

// Ended says that the plane ended by itself: systemd starts it again after a pause.
func (s State) Ended() bool { return s.Sub == "auto-restart" || s.Active == "failed" }

// Restart has systemd start the plane, anew if it runs, and returns at once.
func (s *Service) Restart(ctx context.Context) error {
	return systemctl(ctx, "--no-block", "restart", s.Name)
}

// Stop ends the plane, which systemd then leaves ended until the machine starts again or
// somebody asks for it. It returns when it has ended.
func (s *Service) Stop(ctx context.Context) error { return systemctl(ctx, "stop", s.Name) }

// State asks systemd.
func (s *Service) State(ctx context.Context) (State, error) {
	out, err := output(ctx, "systemctl", "show", "--property=ActiveState,SubState,UnitFileState,NeedDaemonReload,NRestarts", s.Name)
	if err != nil {
		return State{}, err
	}
	var state State
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ActiveState":
			state.Active = value
		case "SubState":
			state.Sub = value
		case "NRestarts":
			state.Restarts = value
		case "UnitFileState":
			state.Enabled = value == "enabled"
		case "NeedDaemonReload":
			state.outdated = value == "yes"
		}
	}
	return state, nil
}

// Summary is the state in a line for people.
func (s *Service) Summary(ctx context.Context) string {
	state, err := s.State(ctx)
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Name, err)
	}
	boot := "starts with this machine"
	if !state.Enabled {
		boot = "does not start with this machine until `slipway install` is run"
	}
	restarts := ""
	if state.Restarts != "" && state.Restarts != "0" {
		restarts = fmt.Sprintf("; restarts after it ended by itself: %s (`%s`)", state.Restarts, s.LogCommand())
	}
	return fmt.Sprintf("%s: %s (%s), %s%s", s.Name, state.Active, state.Sub, boot, restarts)
}

// LogCommand shows the log of the plane.
func (s *Service) LogCommand() string { return "journalctl --unit " + s.Name }

// Log is the end of the plane's log, of so many lines, without what the journal adds.
func (s *Service) Log(ctx context.Context, lines int) ([]byte, error) {
	return output(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat", fmt.Sprintf("--lines=%d", lines), "--unit="+s.Name)
}

func systemctl(ctx context.Context, args ...string) error {
	_, err := output(ctx, "systemctl", args...)
	return err
}

// output runs a program and returns what it says; what it complains of is the error.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err == nil {
		return out, nil
	}
	command := program + " " + strings.Join(args, " ")
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return nil, fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(exit.Stderr))
	}
	return nil, fmt.Errorf("%s: %w", command, err)
}
