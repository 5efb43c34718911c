package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// Record tells which process is the init of a host. The number alone would not
// do: it may by now belong to something else.
type Record struct {
	// ID of the init.
	process.ID
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
	return err == nil && r.MachineBootID != process.MachineBootID()
}

// NoteOff has a host that was switched off stay off in this run of the machine.
func NoteOff(dir string) error {
	r, err := LoadRecord(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never booted
	}
	if err != nil || r.MachineBootID == process.MachineBootID() {
		return err
	}
	r.PID, r.MachineBootID = 0, process.MachineBootID()
	return writeJSON(filepath.Join(dir, recordFile), r)
}

// ErrNotRunning means that the recorded process is gone.
var ErrNotRunning = errors.New("host is not running")

// Open finds the recorded process; ErrNotRunning if it has ended. Close the handle.
func (r Record) Open() (*process.Process, error) {
	init, err := r.ID.Open()
	if errors.Is(err, process.ErrNotRunning) {
		return nil, ErrNotRunning
	}
	return init, err
}

// Booted reports whether the services of the host have been started. It is for
// those who did not launch it; the launcher hears it on StatusFD.
func Booted(p *process.Process) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", p.PID, unit.Socket))
	return err == nil
}
