package unit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit is the end of a child process.
type Exit struct {
	PID    int
	Status syscall.WaitStatus
}

// String is how systemd words it.
func (e Exit) String() string {
	if e.Status.Signaled() {
		return fmt.Sprintf("killed by %s", e.Status.Signal())
	}
	return fmt.Sprintf("exited, status=%d", e.Status.ExitStatus())
}

// Processes starts and signals the processes of units.
type Processes interface {
	// Start runs argv with both outputs in out, as the leader of a session.
	Start(argv, env []string, out *os.File) (pid int, err error)
	// Signal sends sig to the process, or to its process group.
	Signal(pid int, sig syscall.Signal, group bool)
	// Exits delivers the end of every child.
	Exits() <-chan Exit
}

// initProcesses is Processes for PID 1, which also reaps processes that are not its own.
type initProcesses struct{ exits chan Exit }

// NewProcesses starts to reap all children of this process, those that os/exec
// starts included: it is meant for PID 1 alone.
func NewProcesses() Processes {
	p := &initProcesses{exits: make(chan Exit, 64)}
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, unix.SIGCHLD)
	go p.reap(sigchld)
	return p
}

func (p *initProcesses) reap(sigchld <-chan os.Signal) {
	for range sigchld {
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			p.exits <- Exit{pid, ws}
		}
	}
}

func (p *initProcesses) Exits() <-chan Exit { return p.exits }

// Start does not use os/exec to run the program: that insists on reaping it.
func (p *initProcesses) Start(argv, env []string, out *os.File) (int, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   env,
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func (p *initProcesses) Signal(pid int, sig syscall.Signal, group bool) {
	if group {
		pid = -pid
	}
	_ = syscall.Kill(pid, sig)
}
