package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The plane of the benchmark has a network namespace of this name.
const (
	instanceName = "slipway-scale"
	apiPort      = "36445"
)

// outside starts a plane, runs the measurement in the plane's network namespace,
// where the workload cluster must be too, and takes everything down.
func outside(ctx context.Context, s settings) (err error) {
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "slipway-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stateDir := filepath.Join(dir, "s")
	log, err := os.Create(filepath.Join(dir, "plane.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	plane := exec.Command(filepath.Join(s.bin, "slipway"), "serve", "--state-dir", stateDir, "--name", instanceName, "--api-port", apiPort)
	plane.Stdout, plane.Stderr = log, log
	if err := plane.Start(); err != nil {
		return fmt.Errorf("start the plane: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- plane.Wait() }()
	defer func() {
		down, downErr := exec.Command(filepath.Join(s.bin, "slipway"), "down", "--purge", "--state-dir", stateDir).CombinedOutput()
		if downErr != nil {
			err = errors.Join(err, fmt.Errorf("down: %w\n%s", downErr, down))
		}
	}()
	if err := awaitReady(ctx, stateDir, exited); err != nil {
		return err
	}
	return runInside(ctx, s, stateDir, plane.Process.Pid)
}

func awaitReady(ctx context.Context, stateDir string, exited <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the plane is not ready after %s", startTimeout))
	defer cancel()
	for {
		var status struct {
			Ready bool `json:"ready"`
		}
		data, err := os.ReadFile(filepath.Join(stateDir, "status.json"))
		if err == nil && json.Unmarshal(data, &status) == nil && status.Ready {
			return nil
		}
		select {
		case err := <-exited:
			return fmt.Errorf("the plane ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// runInside runs this command again, as a child in the namespace of the plane.
func runInside(ctx context.Context, s settings, stateDir string, pid int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "-bin", s.bin, "-pools", s.pools.String(), "-bootstrap", s.bootstrap.String(),
		"-settle", s.settle.String(), "-timeout", s.timeout.String(), "-profiles", s.profiles,
		"-inside", stateDir, "-plane-pid", strconv.Itoa(pid))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.WaitDelay = 30 * time.Second
	started := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine, since it is never unlocked; its
		// child is killed with the parent, not with the thread.
		runtime.LockOSThread()
		started <- startIn(child, filepath.Join("/run/netns", instanceName))
	}()
	if err := <-started; err != nil {
		return err
	}
	return child.Wait()
}

func startIn(child *exec.Cmd, namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace of the plane: %w", err)
	}
	return child.Start()
}
