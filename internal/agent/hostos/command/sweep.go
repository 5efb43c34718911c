package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// sweepPause is the wait between looks at processes that are ending.
const sweepPause = 20 * time.Millisecond

// KillMarked ends every process that carries the mark of this agent: commands of a run that
// was interrupted by the end of the agent, and what they left in the background.
// It returns when they are gone or the context ends. No command may be running.
func (s System) KillMarked(ctx context.Context) error {
	for {
		pids, err := marked("/proc", s.mark())
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end process %d of an interrupted run: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v of an interrupted run do not end: %w", pids, context.Cause(ctx))
		case <-time.After(sweepPause):
		}
	}
}

// marked lists the living processes with the mark. A zombie has no environment.
func marked(proc, mark string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(proc, e.Name(), "environ"))
		if err != nil {
			continue
		}
		for _, variable := range bytes.Split(environ, []byte{0}) {
			if string(variable) == mark {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}
