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
	"slices"
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

// outside takes the measurements, one after the other.
func outside(ctx context.Context, s settings) (err error) {
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "slipway-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.peerMachines == 0 && len(s.pools) > 0 {
		s.peerMachines = s.pools[0]
	}
	if s.peer && s.peerMachines > 0 {
		if err := s.peerBuilt(); err != nil {
			return err
		}
		s.peerResult = filepath.Join(dir, "peer.json")
		if err := onPlane(ctx, s, dir, partPeer); err != nil {
			return err
		}
	}
	if len(s.pools) == 0 {
		return nil
	}
	return onPlane(ctx, s, dir, partPools)
}

// onPlane starts a plane, takes a measurement in its network namespace, where the
// workload cluster must be too, and takes everything down.
func onPlane(ctx context.Context, s settings, dir, part string) (err error) {
	stateDir := filepath.Join(dir, part)
	log, err := os.Create(filepath.Join(dir, part+".log"))
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
		down, downErr := exec.Command(filepath.Join(s.bin, "slipway"), "down", "--purge", "--yes", "--state-dir", stateDir).CombinedOutput()
		if downErr != nil {
			err = errors.Join(err, fmt.Errorf("down: %w\n%s", downErr, down))
		}
	}()
	if err := awaitReady(ctx, stateDir, exited); err != nil {
		return err
	}
	return runInside(ctx, s, part, stateDir, plane.Process.Pid)
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
func runInside(ctx context.Context, s settings, part, stateDir string, pid int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The last of two flags of a name counts.
	child := exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "-part", part, "-bin", s.bin, "-inside", stateDir,
		"-plane-pid", strconv.Itoa(pid), "-peer-machines", strconv.Itoa(s.peerMachines), "-peer-result", s.peerResult)...)
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
