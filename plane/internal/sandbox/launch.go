package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

// Descriptors that Launch and Init inherit.
const (
	// StatusFD is the writing end of a pipe on which the init reports, once,
	// StatusReady or StatusError and the reason.
	StatusFD = 3
	// goFD tells the init that its PID is on record. End of file without a byte
	// means that the launcher died before.
	goFD = 4
)

// What the init reports on StatusFD.
const (
	StatusReady = "ready"
	StatusError = "error: "
)

// searchPath is the search path of everything that runs on a host.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Launch switches on the host in dir: it starts the init in namespaces and control
// groups of its own, records it, and returns. The host stays on when the caller ends.
func Launch(dir string) error {
	s, err := LoadSpec(dir)
	if err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	group := s.Group()
	if err := group.Create(); err != nil {
		return err
	}
	if err := group.Join(os.Getpid()); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := confine(); err != nil {
		return fmt.Errorf("start host %s: %w", s.Name, err)
	}
	pid, release, err := startInit(s)
	if err != nil {
		return fmt.Errorf("start host %s: %w", s.Name, err)
	}
	defer release.Close()
	// The host can hand out controllers only when its top group is empty.
	if err := group.JoinLeaf(os.Getpid()); err != nil {
		return err
	}
	init, err := process.IDOf(pid)
	if err != nil {
		return err
	}
	record := Record{ID: init, BootID: newUUID(), Started: time.Now().UTC()}
	if err := writeJSON(filepath.Join(dir, recordFile), record); err != nil {
		return err
	}
	_, err = release.Write([]byte{1})
	return err
}

// startInit starts the init, which waits until a byte is written to release.
func startInit(s Spec) (pid int, release *os.File, err error) {
	console, err := os.OpenFile(filepath.Join(s.Dir, InitLog), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer console.Close()
	hold, release, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer hold.Close()
	cmd := exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{"slipway-sandbox", "init", s.Dir},
		Env:        []string{"PATH=" + searchPath, "HOME=/root"},
		Dir:        "/",
		Stdout:     console,
		Stderr:     console,
		ExtraFiles: []*os.File{os.NewFile(StatusFD, "status"), hold},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true,
			Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
				syscall.CLONE_NEWNET | syscall.CLONE_NEWCGROUP,
		},
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, errors.Join(err, release.Close())
	}
	return cmd.Process.Pid, release, nil
}

// waitForRelease returns when the launcher has recorded this init.
func waitForRelease() error {
	f := os.NewFile(goFD, "release")
	defer f.Close()
	if _, err := io.ReadFull(f, make([]byte, 1)); err != nil {
		return fmt.Errorf("the launcher went away: %w", err)
	}
	return nil
}

// newUUID is a random UUID, version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// NewMachineID is a random machine ID.
func NewMachineID() string { return strings.ReplaceAll(newUUID(), "-", "") }
