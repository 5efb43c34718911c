package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// criNamespace is the containerd namespace that the kubelet's images live in.
	criNamespace = "k8s.io"

	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
	pollInterval = 20 * time.Millisecond
)

// privateConfig keeps containerd to its root, its state directory and its
// socket: plugins that would open other sockets or directories of the machine
// are off, as are snapshotters that hosts do not use.
const privateConfig = `version = 4
disabled_plugins = [
  "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime",
  "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.native",
]
`

// containerd is a private daemon that works on one root directory.
type containerd struct {
	programs string // directory of containerd and ctr
	state    string // temporary; holds the socket, configuration and log
	cmd      *exec.Cmd
	exited   chan struct{} // closed once the daemon has ended
}

// startContainerd starts the daemon and returns when it answers on its socket.
// It runs in a mount namespace of its own, so that no interruption leaves a
// mount behind, and ends when this process does.
func startContainerd(ctx context.Context, programs, root string) (*containerd, error) {
	// A socket's path is limited to 107 bytes, which a bundle's may exceed.
	state, err := os.MkdirTemp("", "nodebundle-")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(state, "config.toml")
	if err := os.WriteFile(config, []byte(privateConfig), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(state))
	}
	c := &containerd{programs: programs, state: state, exited: make(chan struct{})}
	log, err := os.Create(c.logFile())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(state))
	}
	defer log.Close()
	c.cmd = exec.Command(filepath.Join(programs, "containerd"),
		"--config", config, "--root", root, "--state", filepath.Join(state, "state"), "--address", c.socket())
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, errors.Join(err, os.RemoveAll(state))
	}
	if err := c.waitReady(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *containerd) socket() string { return filepath.Join(c.state, "containerd.sock") }

func (c *containerd) logFile() string { return filepath.Join(c.state, "containerd.log") }

// failure is err with what the daemon logged.
func (c *containerd) failure(err error) error {
	logged, readErr := os.ReadFile(c.logFile())
	return errors.Join(fmt.Errorf("containerd: %w:\n%s", err, logged), readErr)
}

// run starts the daemon and waits for its end on one thread: the kernel sends
// the parent-death signal when the thread that started the child ends.
func (c *containerd) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// The exit status says nothing that stop or waitReady would not notice.
	_ = c.cmd.Wait()
	close(c.exited)
}

func (c *containerd) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := net.Dial("unix", c.socket())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return c.failure(fmt.Errorf("no answer on its socket: %w", ctx.Err()))
		case <-c.exited:
			return c.failure(errors.New("ended at its start"))
		case <-time.After(pollInterval):
		}
	}
}

// ctr runs one command of containerd's client and returns its output.
func (c *containerd) ctr(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, "ctr"),
		append([]string{"--address", c.socket(), "--namespace", criNamespace}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String(), nil
}

// stop ends the daemon, which closes its databases, and removes its state.
func (c *containerd) stop() error {
	err := c.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		err = errors.Join(fmt.Errorf("containerd did not stop within %s", stopTimeout), c.cmd.Process.Kill())
		<-c.exited
	}
	return errors.Join(err, os.RemoveAll(c.state))
}
