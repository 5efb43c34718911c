package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotRunning means that the process is gone.
var ErrNotRunning = errors.New("the process is not running")

// ID identifies a process over the runs of the machine.
type ID struct {
	// PID as seen on the machine.
	PID int `json:"pid"`
	// StartTime of the process in clock ticks since the machine started.
	StartTime uint64 `json:"startTime"`
	// MachineBootID tells the runs of the machine apart.
	MachineBootID string `json:"machineBootID"`
}

// IDOf returns the ID of a process that is known to run.
func IDOf(pid int) (ID, error) {
	start, _, err := readStat(pid)
	return ID{PID: pid, StartTime: start, MachineBootID: MachineBootID()}, err
}

// Process is a handle on a running process, safe against recycled PIDs.
type Process struct {
	// PID as seen on the machine.
	PID int
	fd  int
}

// Open finds the process; ErrNotRunning if it has ended. Close the handle.
func (id ID) Open() (*Process, error) {
	if id.PID <= 0 || id.MachineBootID != MachineBootID() {
		return nil, ErrNotRunning
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	// Read after the descriptor was opened, so both speak of the same process.
	start, zombie, err := readStat(id.PID)
	if err != nil || zombie || start != id.StartTime {
		_ = unix.Close(fd)
		return nil, ErrNotRunning
	}
	return &Process{PID: id.PID, fd: fd}, nil
}

// Runs reports whether the process is there.
func (id ID) Runs() bool {
	p, err := id.Open()
	if err != nil {
		return !errors.Is(err, ErrNotRunning)
	}
	p.Close()
	return true
}

// Signal sends sig to the process; one that has ended is not an error.
func (id ID) Signal(sig unix.Signal) error {
	p, err := id.Open()
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Signal(sig)
}

// Close releases the handle.
func (p *Process) Close() { _ = unix.Close(p.fd) }

// Signal sends sig; a process that has ended is not an error.
func (p *Process) Signal(sig unix.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// EnterNamespaces moves the calling thread into those namespaces of the process that the flags
// name, as setns(2) does.
func (p *Process) EnterNamespaces(flags int) error { return unix.Setns(p.fd, flags) }

// Wait returns when the process has ended. That of a PID namespace's init is the
// end of all processes in the namespace.
func (p *Process) Wait(ctx context.Context) error {
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 20)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("process %d does not end: %w", p.PID, context.Cause(ctx))
		}
	}
}

// readStat reads the start time and whether the process is a zombie; see proc_pid_stat(5).
func readStat(pid int) (start uint64, zombie bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	return parseStat(string(b))
}

func parseStat(stat string) (start uint64, zombie bool, err error) {
	// The name in parentheses may hold anything, even parentheses and spaces.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const state, starttime = 0, 22 - 3 // fields 3 and 22 of proc(5); the name was the second
	if len(f) <= starttime {
		return 0, false, fmt.Errorf("malformed stat %q", stat)
	}
	start, err = strconv.ParseUint(f[starttime], 10, 64)
	return start, f[state] == "Z" || f[state] == "X", err
}

// MachineBootID is of this run of the machine; empty when it cannot be read.
func MachineBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
