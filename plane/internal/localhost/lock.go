package localhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 20 * time.Millisecond

// lockHost keeps others away from one host, and from taking away all hosts.
func (m *Manager) lockHost(ctx context.Context, host string) (unlock func(), err error) {
	all, err := m.lock(ctx, ".all", unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	one, err := m.lock(ctx, host, unix.LOCK_EX)
	if err != nil {
		all()
		return nil, err
	}
	return func() { one(); all() }, nil
}

// lockAll keeps others away from all hosts.
func (m *Manager) lockAll(ctx context.Context) (unlock func(), err error) {
	return m.lock(ctx, ".all", unix.LOCK_EX)
}

// lock takes a lock file, waiting until ctx ends. Each call opens the file anew, so
// goroutines of one process exclude each other too, and a killed process lets go.
func (m *Manager) lock(ctx context.Context, name string, how int) (unlock func(), err error) {
	dir := filepath.Join(m.StateDir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("another slipway command is busy with the hosts of %s: %w", m.StateDir, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}
