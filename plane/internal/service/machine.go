package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/durable"
)

// Machine is where the units are.
type Machine struct {
	// UnitDir has the unit files of the administrator.
	UnitDir string
	// Booted is a directory that is there when systemd runs the machine.
	Booted string
	// Emptied are directories whose contents do not outlive a boot: no place for what
	// systemd runs.
	Emptied []string
}

// Local is this machine.
func Local() Machine {
	return Machine{
		UnitDir: "/etc/systemd/system",
		Booted:  "/run/systemd/system", // see sd_booted(3)
		Emptied: []string{"/tmp", "/var/tmp", "/run", "/dev"},
	}
}

// ErrNoSystemd means that systemd does not run the machine.
var ErrNoSystemd = errors.New("systemd does not run this machine (there is no /run/systemd/system): have its service manager run `slipway serve` in the foreground, or use `slipway up`")

// ForeignUnitError says that there is a unit of that name which `slipway install` did not write.
type ForeignUnitError struct{ Path string }

func (e *ForeignUnitError) Error() string {
	return fmt.Sprintf("%s was not written by `slipway install`, which leaves it as it is: move it away, or choose another name with --name and --state-dir", e.Path)
}

// OtherPlaneError says that the unit belongs to another plane of the same name.
type OtherPlaneError struct{ Path, StateDir string }

func (e *OtherPlaneError) Error() string {
	return fmt.Sprintf("%s is the service of the plane in %s: run `slipway uninstall --state-dir %s` first, or choose another name with --name", e.Path, e.StateDir, e.StateDir)
}

// Check returns ErrNoSystemd on a machine that systemd does not run.
func (m Machine) Check() error {
	if !m.booted() {
		return ErrNoSystemd
	}
	return nil
}

func (m Machine) booted() bool {
	info, err := os.Stat(m.Booted)
	return err == nil && info.IsDir()
}

// Find returns the service of the plane in a state directory, an absolute path; nil when it
// has none. The plane need not be there.
func (m Machine) Find(stateDir string) (*Service, error) {
	if !m.booted() {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(m.UnitDir, prefix+"*"+suffix))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile, or a link to nothing
		}
		if err != nil {
			return nil, fmt.Errorf("look for the service of the plane: %w", err)
		}
		if dir, ok := stateDirOf(string(text)); ok && dir == stateDir {
			return &Service{Name: filepath.Base(path), path: path}, nil
		}
	}
	return nil, nil
}

// Install writes the unit and has it start with the machine from now on; it starts nothing.
// What is so already is left alone: changed says whether anything was not.
func (m Machine) Install(ctx context.Context, u Unit) (s *Service, changed bool, err error) {
	if err := m.Check(); err != nil {
		return nil, false, err
	}
	text, err := u.Render()
	if err != nil {
		return nil, false, err
	}
	s = &Service{Name: NameOf(u.Plane), path: filepath.Join(m.UnitDir, NameOf(u.Plane))}
	before, err := s.read(u.StateDir)
	if err != nil {
		return nil, false, err
	}
	if before != text {
		if err := durable.Write(s.path, []byte(text), 0o644); err != nil {
			return nil, false, err
		}
		changed = true
	}
	enabled, err := s.enable(ctx, changed)
	return s, changed || enabled, err
}

// read returns the unit file, empty when there is none; an error unless it is the unit of
// the plane in stateDir.
func (s *Service) read(stateDir string) (string, error) {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &ForeignUnitError{s.path} // such as the link of a unit that is masked
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return "", err
	}
	switch dir, ok := stateDirOf(string(text)); {
	case !ok:
		return "", &ForeignUnitError{s.path}
	case dir != stateDir:
		return "", &OtherPlaneError{s.path, dir}
	}
	return string(text), nil
}

// enable has systemd read the file, if it has not, and start the unit with the machine.
func (s *Service) enable(ctx context.Context, written bool) (changed bool, err error) {
	state, err := s.State(ctx)
	if err != nil {
		return false, err
	}
	if written || state.outdated {
		if err := systemctl(ctx, "daemon-reload"); err != nil {
			return false, err
		}
	}
	if state.Enabled {
		return false, nil
	}
	return true, systemctl(ctx, "enable", s.Name)
}

// Remove stops the plane and takes the unit away. It may be called again after it was
// interrupted: the file, by which Find knows the service, goes last.
func (s *Service) Remove(ctx context.Context) error {
	if err := systemctl(ctx, "disable", "--now", s.Name); err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	return systemctl(ctx, "daemon-reload")
}

// DropIns are files of the administrator that change the unit. Remove leaves them.
func (s *Service) DropIns() string {
	if dir := s.path + ".d"; exists(dir) {
		return dir
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
