package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

// adminKubeconfig is where kubeadm leaves it on a control-plane host.
const adminKubeconfig = "/etc/kubernetes/admin.conf"

// ExecFailed is the exit code when the command could not be run at all, as with
// env(1) and nsenter(1).
const ExecFailed = 125

// Exec runs argv on the host in dir, with the standard streams of this process,
// and returns its exit code (128 + n after signal n). The process it is called
// in is of no use afterwards: it has joined the host.
func Exec(dir string, argv []string) (int, error) {
	if len(argv) == 0 {
		return 0, errors.New("no command given")
	}
	s, err := LoadSpec(dir)
	if err != nil {
		return 0, err
	}
	r, err := LoadRecord(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	p, err := r.Open()
	if err != nil {
		return 0, fmt.Errorf("host %s: %w", s.Name, err)
	}
	defer p.Close()
	if err := s.Group().JoinLeaf(os.Getpid()); err != nil {
		return 0, err
	}
	// Only the children of this thread are born into the PID namespace.
	runtime.LockOSThread()
	if err := enter(p); err != nil {
		return 0, fmt.Errorf("enter host %s: %w", s.Name, err)
	}
	if err := confine(); err != nil {
		return 0, fmt.Errorf("enter host %s: %w", s.Name, err)
	}
	return runChild(argv)
}

// enter moves the calling thread into all namespaces of the host at once.
func enter(p *process.Process) error {
	// A mount namespace is not entered by a thread that shares its root with others.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return p.EnterNamespaces(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP)
}

func runChild(argv []string) (int, error) {
	env := []string{"PATH=" + searchPath, "HOME=/root", "USER=root"}
	if term := os.Getenv("TERM"); term != "" {
		env = append(env, "TERM="+term)
	}
	if _, err := os.Stat(adminKubeconfig); err == nil {
		env = append(env, "KUBECONFIG="+adminKubeconfig)
	}
	// The command is looked up on the host.
	if err := os.Setenv("PATH", searchPath); err != nil {
		return 0, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for sig := range signals {
			// A terminal has sent the others to the child as well.
			if sig == unix.SIGTERM || sig == unix.SIGHUP {
				_ = cmd.Process.Signal(sig)
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
