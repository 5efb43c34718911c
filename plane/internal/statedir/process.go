package statedir

import (
	"context"
	"encoding/json"
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
// kernel's lock is the witness, so a recycled PID never passes for a plane.
func Running(stateDir string) (Holder, bool, error) {
	var holder Holder
	f, err := os.Open(filepath.Join(stateDir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return holder, false, nil
	}
	if err != nil {
		return holder, false, fmt.Errorf("open the lock: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return holder, false, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return holder, false, fmt.Errorf("look at the lock: %w", err)
	}
	// The holder may be about to write its name: it runs, whoever it is.
	if err := json.NewDecoder(f).Decode(&holder); err != nil {
		return Holder{}, true, nil
	}
	return holder, true, nil
}

// Stop ends the plane that serves a state directory and returns when it is gone.
// One that does not stop in time is killed. No plane is not an error.
func Stop(ctx context.Context, stateDir string) error {
	holder, running, err := Running(stateDir)
	if err != nil || !running {
		return err
	}
	plane, err := holder.Open()
	if errors.Is(err, process.ErrNotRunning) {
		// The lock is held by a process that has not written its name yet: the one that is written down
		// has ended, and its number may belong to another process.
		return fmt.Errorf("the plane in %s is just starting; try again in a moment", stateDir)
	}
	if err != nil {
		return fmt.Errorf("stop the plane: %w", err)
	}
	defer plane.Close()
	signal := unix.SIGTERM
	deadline := time.Now().Add(stopPatience)
	for {
		if err := plane.Signal(signal); err != nil {
			return fmt.Errorf("stop the plane: %w", err)
		}
		gone, err := awaitGone(ctx, stateDir, deadline)
		if err != nil || gone {
			return err
		}
		if signal == unix.SIGKILL {
			return fmt.Errorf("the plane, process %d, does not end", holder.PID)
		}
		signal, deadline = unix.SIGKILL, time.Now().Add(stopPatience)
	}
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
