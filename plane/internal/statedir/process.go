package statedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

// stopPatience is how long a plane may take to stop before it is killed. Its
// data is safe either way.
const stopPatience = 15 * time.Second

// Running returns who serves a state directory, and whether anybody does. The
// kernel's lock is the witness, so a recycled PID never passes for a plane. A plane that has
// ended, and whose supervisor has not started it again, has no PID.
func Running(stateDir string) (Holder, bool, error) {
	f, err := os.Open(filepath.Join(stateDir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("open the lock: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return Holder{}, false, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return Holder{}, false, fmt.Errorf("look at the lock: %w", err)
	}
	// The holder may be about to write its name: it runs, whoever it is.
	holder, err := readHolder(f)
	if err != nil {
		return Holder{}, true, nil
	}
	if !holder.Runs() {
		holder.ID, holder.Start = process.ID{}, time.Time{}
	}
	if holder.Supervisor != nil && !holder.Supervisor.Runs() {
		holder.Supervisor, holder.Unsupervised = nil, holder.PID != 0
	}
	return holder, true, nil
}

// Stop ends the plane that serves a state directory, and its supervisor, and returns when they are gone.
// What does not stop in time is killed. No plane is not an error.
func Stop(ctx context.Context, stateDir string) error {
	if _, running, err := Running(stateDir); err != nil || !running {
		return err
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := signalHolder(stateDir, signal); err != nil {
			return err
		}
		gone, err := awaitGone(ctx, stateDir, time.Now().Add(stopPatience))
		if err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("the plane in %s does not end", stateDir)
}

// signalHolder signals the supervisor, which passes SIGTERM on to the plane, and the plane where there is no
// supervisor or the signal is SIGKILL. The supervisor comes first, so that it starts nothing again.
func signalHolder(stateDir string, signal unix.Signal) error {
	holder, running, err := Running(stateDir)
	if err != nil || !running {
		return err
	}
	var targets []process.ID
	if holder.Supervisor != nil {
		targets = append(targets, *holder.Supervisor)
	}
	if holder.PID != 0 && (holder.Supervisor == nil || signal == unix.SIGKILL) {
		targets = append(targets, holder.ID)
	}
	if len(targets) == 0 {
		// The lock is held by a process that has not written its name yet: the one that is written down
		// has ended, and its number may belong to another process.
		return fmt.Errorf("the plane in %s is just starting; try again in a moment", stateDir)
	}
	for _, target := range targets {
		if err := target.Signal(signal); err != nil {
			return fmt.Errorf("stop the plane: %w", err)
		}
	}
	return nil
}

func awaitGone(ctx context.Context, stateDir string, deadline time.Time) (bool, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for time.Now().Before(deadline) {
		if _, running, err := Running(stateDir); err != nil || !running {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-ticker.C:
		}
	}
	return false, nil
}
