package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// Record tells which process is the init of a host. The number alone would not
// do: it may by now belong to something else.
type Record struct {
	// PID of the init, as seen on the machine.
	PID int `json:"pid"`
	// StartTime of the process in clock ticks since the machine started.
	StartTime uint64 `json:"startTime"`
	// MachineBootID tells the runs of the machine apart.
	MachineBootID string `json:"machineBootID"`
	// BootID is what the host sees as its own.
	BootID string `json:"bootID"`
	// Started is when the host was switched on.
	Started time.Time `json:"started"`
}

// LoadRecord reads the record of the host in dir; os.ErrNotExist if it never booted.
func LoadRecord(dir string) (Record, error) {
	var r Record
	err := readJSON(filepath.Join(dir, recordFile), &r)
	return r, err
}

// DownWithMachine reports whether the host in dir was switched on, or off, last in an earlier
// run of the machine: like a machine whose power returns it may be switched on.
func DownWithMachine(dir string) bool {
	r, err := LoadRecord(dir)
	return err == nil && r.MachineBootID != machineBootID()
}

// NoteOff has a host that was switched off stay off in this run of the machine.
func NoteOff(dir string) error {
	r, err := LoadRecord(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never booted
	}
	if err != nil || r.MachineBootID == machineBootID() {
		return err
	}
	r.PID, r.MachineBootID = 0, machineBootID()
	return writeJSON(filepath.Join(dir, recordFile), r)
}

// ErrNotRunning means that the recorded process is gone.
var ErrNotRunning = errors.New("host is not running")

// Process is a handle on the init of a running host, safe against recycled PIDs.
type Process struct {
	// PID as seen on the machine.
	PID int
	fd  int
}

// Open finds the recorded process; ErrNotRunning if it has ended. Close the handle.
func (r Record) Open() (*Process, error) {
	if r.PID <= 0 || r.MachineBootID != machineBootID() {
		return nil, ErrNotRunning
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", r.PID, err)
	}
	// Read after the descriptor was opened, so both speak of the same process.
	start, zombie, err := readStat(r.PID)
	if err != nil || zombie || start != r.StartTime {
		_ = unix.Close(fd)
		return nil, ErrNotRunning
	}
	return &Process{PID: r.PID, fd: fd}, nil
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

// Booted reports whether the services of the host have been started. It is for
// those who did not launch it; the launcher hears it on StatusFD.
func (p *Process) Booted() bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", p.PID, unit.Socket))
	return err == nil
}

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

func machineBootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
