package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// fakeProgram is a stand-in that notes its PID each time it is started.
func fakeProgram(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "slipway-lifecycle")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >> %s/pids\nexec sleep 600\n", dir)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// pids waits until the program was started n times.
func pids(t *testing.T, dir string, n int) []int {
	t.Helper()
	var all []int
	poll.Until(t, "the program is started", func() error {
		data, _ := os.ReadFile(filepath.Join(dir, "pids"))
		all = nil
		for _, line := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
		if len(all) < n {
			return fmt.Errorf("started %d times, want %d", len(all), n)
		}
		return nil
	})
	return all
}

// A program that was killed is started again, and stopped it is gone.
func TestProgramIsKeptRunning(t *testing.T) {
	dir := t.TempDir()
	c := &Lifecycle{opts: LifecycleOptions{Program: fakeProgram(t, dir), Dir: dir}}
	c.Go(func(ctx context.Context) error {
		c.supervise(ctx, nil)
		return nil
	})
	first := pids(t, dir, 1)[0]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := pids(t, dir, 2)[1]
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{first, second} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	if started := len(pids(t, dir, 2)); started != 2 {
		t.Errorf("it was started %d times", started)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	c := &Lifecycle{opts: LifecycleOptions{Program: "/nowhere/slipway-lifecycle", Dir: t.TempDir()}}
	if err := c.Init(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere/slipway-lifecycle is missing") {
		t.Errorf("got %v", err)
	}
}
