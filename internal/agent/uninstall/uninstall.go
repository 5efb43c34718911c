package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/durable"
)

// Host is a host that the agent is taken off.
type Host struct {
	Root hostfs.Root
	// Config of the agent; the defaults where there is none any more.
	Config *config.AgentConfiguration
	// Systemctl runs systemctl; nil where no systemd runs, such as below another root.
	Systemctl command.Runner
	// Software that the agent installed.
	Software *software.Host
}

// Left is something that is still on the host.
type Left struct {
	Path string `json:"path"`
	// Why says whose it is, or what to do.
	Why string `json:"why"`
}

// Report is the outcome.
type Report struct {
	// Left is empty when nothing is left.
	Left []Left `json:"left"`
}

// ErrBusy means that another agent, or another of these commands, is at work.
var ErrBusy = errors.New("another slipway-agent is at work on this host: stop it first")

// Run takes the agent and its software away. The error is a *ServesError when the host is a
// node, or may be: nothing was changed then. Done again it goes on where it was.
func (h *Host) Run(ctx context.Context) (Report, error) {
	if err := h.free(); err != nil {
		return Report{}, err
	}
	if err := h.stop(ctx); err != nil {
		return Report{}, err
	}
	unlock, err := h.lock()
	if err != nil {
		// Whoever has it would be in the way of the agent, and if that is another of these
		// commands, the agent in its: it is left to the next boot.
		return Report{}, err
	}
	defer unlock()
	// It may have been given an operation until it stopped.
	if err := h.free(); err != nil {
		unlock()
		return Report{}, errors.Join(err, h.unit(context.WithoutCancel(ctx), "start"))
	}
	// Not before: a host that is cut off in between has its agent after the next boot.
	if err := h.unit(ctx, "disable"); err != nil {
		return Report{}, err
	}
	result, err := h.Software.Uninstall(ctx)
	if err != nil {
		if unchanged(err) {
			unlock()
			err = errors.Join(err, h.unit(context.WithoutCancel(ctx), "enable", "--now"))
		}
		return Report{}, err
	}
	all := places(h.Config, h.linked(h.Config.StateDir))
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		if err := h.remove(ctx, p); err != nil {
			return Report{}, fmt.Errorf("remove %s: %w", p.path, err)
		}
	}
	report := Report{Left: []Left{}}
	for _, p := range all {
		if why := h.look(p); why != "" {
			report.Left = append(report.Left, Left{p.path, why})
		}
	}
	for _, path := range result.Kept {
		// What a directory of the software was kept for may have been the agent's.
		told := slices.ContainsFunc(report.Left, func(l Left) bool { return l.Path == path })
		if h.exists(path) && !told {
			report.Left = append(report.Left, Left{path, "somebody else changed it, or has files in it"})
		}
	}
	return report, nil
}

// stop ends the agent until the next boot.
func (h *Host) stop(ctx context.Context) error {
	if h.exists(unitPath) {
		return h.unit(ctx, "stop")
	}
	// Its unit was removed while it ran.
	if h.Systemctl != nil && h.systemctl(ctx, "--quiet", "is-active", unitName) == nil {
		return h.systemctl(ctx, "stop", unitName)
	}
	return nil
}

// unit tells systemd to do something with the unit of the agent, if that is there still.
func (h *Host) unit(ctx context.Context, verb ...string) error {
	if !h.exists(unitPath) {
		return nil
	}
	return h.systemctl(ctx, append(verb, unitName)...)
}

// unchanged says of an error of the software that nothing of it is gone.
func unchanged(err error) bool {
	var refused *software.Error
	return errors.As(err, &refused) && (refused.Reason == software.ReasonInUse || refused.Reason == software.ReasonBusy)
}

func (h *Host) systemctl(ctx context.Context, args ...string) error {
	if h.Systemctl == nil {
		return nil
	}
	if _, err := h.Systemctl.Run(ctx, "systemctl", args...); err != nil {
		return fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// lock holds that no agent runs, however it was started.
func (h *Host) lock() (func(), error) {
	unlock, err := durable.TryLock(h.Root.Path(filepath.Join(h.Config.StateDir, config.LockFile)))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return func() {}, nil
	case errors.Is(err, durable.ErrLocked):
		return nil, errors.Join(ErrBusy, err)
	}
	return unlock, err
}

// remove takes a place away, and returns once that is on the disk.
func (h *Host) remove(ctx context.Context, p place) error {
	if p.named {
		return nil
	}
	path := h.Root.Path(p.path)
	if p.temporaries != "" {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(path), p.temporaries+"*"))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := durable.Remove(name); err != nil {
				return err
			}
		}
	}
	there := h.exists(p.path)
	var err error
	if p.all {
		err = durable.RemoveAll(path)
	} else {
		err = durable.Remove(path)
	}
	if p.directory && (errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.EBUSY)) {
		return nil // look tells
	}
	if err == nil && there && p.path == unitPath {
		return h.systemctl(ctx, "daemon-reload")
	}
	return err
}

// linked is where a directory is on the host that is a link to another disk: empty for one that is no link, and away
// for one that leads nowhere on this host, as to a disk that is not mounted.
func (h *Host) linked(dir string) string {
	path := h.Root.Path(dir)
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	target, err := filepath.EvalSymlinks(path)
	root, errRoot := filepath.EvalSymlinks(h.Root.Path("/"))
	below, errBelow := filepath.Rel(root, target)
	if err != nil || errRoot != nil || errBelow != nil || below == "." || strings.HasPrefix(below, "..") {
		return away
	}
	return "/" + below
}

func (h *Host) exists(path string) bool {
	_, err := os.Lstat(h.Root.Path(path))
	return err == nil
}

// look says why a place is still there; nothing when it is gone.
func (h *Host) look(p place) string {
	if !h.exists(p.path) {
		return ""
	}
	entries, err := os.ReadDir(h.Root.Path(p.path))
	if err != nil || len(entries) == 0 {
		if info, err := os.Lstat(h.Root.Path(p.path)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "it is a link that leads nowhere on this host"
		}
		return "it could not be removed"
	}
	const most = 4
	var names []string
	for i, e := range entries {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(entries)-most))
			break
		}
		names = append(names, e.Name())
	}
	return "it has files that are not the agent's: " + strings.Join(names, ", ")
}
