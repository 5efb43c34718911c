package localhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// escape is the name by which this program, on a host, tries what its first argument says.
const escape = "escape"

// escapes are what root of a host tries on the machine. They do no harm where they are
// let: what they are called with is nothing. Each returns why it failed.
var escapes = map[string]func() error{
	"load a module":              func() error { return unix.InitModule(nil, "") },
	"load a module from a file":  func() error { return unix.FinitModule(-1, "", 0) },
	"unload a module":            func() error { return unix.DeleteModule("slipway_no_such_module", 0) },
	"load another kernel":        func() error { return unix.KexecFileLoad(-1, -1, "", ^0) },
	"set the clock":              setTheClock,
	"reach the ports":            func() error { return readNode(unix.S_IFCHR, 1, 4) },
	"switch swap off":            func() error { return call(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(&[]byte("/no/such/swap\x00")[0]))) },
	"account processes":          func() error { return unix.Acct("/no/such/file") },
	"read the kernel's log":      func() error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err },
	"read keys of user 0":        func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false); return err },
	"open a file by its number":  openByNumber,
	"read the memory of all":     func() error { return read("/proc/kcore") },
	"read a disk":                func() error { return readDevice(unix.S_IFBLK, "/proc/partitions") },
	"read any memory":            func() error { return readNode(unix.S_IFCHR, 1, 1) },
	"attach a disk of its own":   func() error { return readNode(unix.S_IFCHR, 10, 237) },
	"start a virtual machine":    func() error { return readNode(unix.S_IFCHR, 10, 232) },
	"press the request key":      func() error { return write("/proc/sysrq-trigger") },
	"run a program at each dump": func() error { return write("/proc/sys/kernel/core_pattern") },
	"change memory management":   func() error { return write("/proc/sys/vm/drop_caches") },
	"change limits of files":     func() error { return write("/proc/sys/fs/file-max") },
	"suspend the machine":        func() error { return write("/sys/power/state") },
}

// refusals are the answers that come of what keeps a host in.
var refusals = []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EROFS}

func call(number uintptr, argument uintptr) error {
	if _, _, errno := unix.Syscall(number, argument, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// setTheClock sets it to what it is.
func setTheClock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

// openByNumber names no directory, which is looked at only once the right is there.
func openByNumber() error {
	_, err := unix.OpenByHandleAt(-1, unix.NewFileHandle(1, make([]byte, 8)), unix.O_RDONLY)
	return err
}

// errAbsent says that the kernel of this machine has no such thing.
var errAbsent = errors.New("this kernel does not have it")

func read(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return errAbsent
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := f.Read(make([]byte, 16)); n == 0 && errors.Is(err, io.EOF) {
		return unix.EACCES // it is masked
	} else if err != nil {
		return err
	}
	return nil
}

// write opens a file for writing, and writes nothing.
func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return errAbsent
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeDevice != 0 {
		return errors.Join(err, unix.EACCES) // it is masked
	}
	return nil
}

// readDevice reads the first of the machine's disks.
func readDevice(kind uint32, partitions string) error {
	listed, err := os.ReadFile(partitions)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(listed)) {
		fields := strings.Fields(line)
		if len(fields) != 4 {
			continue
		}
		major, err := strconv.Atoi(fields[0])
		if err != nil {
			continue // the headings
		}
		minor, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		return readNode(kind, uint32(major), uint32(minor))
	}
	return errAbsent
}

func readNode(kind, major, minor uint32) error {
	path := filepath.Join("/var", fmt.Sprintf("node-%d-%d", major, minor))
	if err := unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
		return err
	}
	defer os.Remove(path)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// tryEscape is what the program does on a host.
func tryEscape(name string) string {
	err := escapes[name]()
	switch {
	case err == nil:
		return "LET"
	case errors.Is(err, errAbsent):
		return err.Error()
	}
	if slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
		return "refused: " + err.Error()
	}
	return "LET, but for " + err.Error()
}

// machineRights are the capabilities that act on the machine as a whole.
var machineRights = []int{
	unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_PACCT, unix.CAP_SYS_BOOT, unix.CAP_SYS_TIME,
	unix.CAP_AUDIT_CONTROL, unix.CAP_AUDIT_READ, unix.CAP_MAC_OVERRIDE, unix.CAP_MAC_ADMIN, unix.CAP_WAKE_ALARM, unix.CAP_BLOCK_SUSPEND,
}

// TestHostIsConfined has root of a host, in a service of it and by `slipway host shell`, try
// what would act on the machine.
func TestHostIsConfined(t *testing.T) {
	m := newManager(t, fakeBundle(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	const path, answers = "/opt/" + escape, "/var/escapes"
	script := "while [ ! -x " + path + " ]; do sleep 0.1; done; " + path + " all >" + answers + ".part; mv " + answers + ".part " + answers + "; exec sleep 100000"
	host := bootHost(t, m, 1, []unit.Unit{{Name: "tries", Argv: []string{"/bin/sh", "-c", script}}})
	staged := filepath.Join(m.Dir(host), path+".new")
	if err := errors.Join(os.WriteFile(staged, program, 0o700), os.Rename(staged, strings.TrimSuffix(staged, ".new"))); err != nil {
		t.Fatal(err)
	}
	byService := filepath.Join(m.Dir(host), answers)
	poll.True(t, "the service has tried all", func() bool {
		_, err := os.Stat(byService)
		return err == nil
	})
	for how, said := range map[string]string{"exec": mustOnHost(t, m, host, path, "all"), "service": readFile(t, byService)} {
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if len(lines) != len(escapes) {
			t.Errorf("%s: %d answers of %d", how, len(lines), len(escapes))
		}
		for _, line := range lines {
			name, answer, _ := strings.Cut(line, ": ")
			if strings.HasPrefix(answer, "LET") {
				t.Errorf("%s: could %s: %s", how, name, answer)
			}
		}
		t.Logf("%s:\n%s", how, said)
	}
	// Root of the host takes over what is not confined: all is.
	for _, process := range []string{"1", "self"} {
		status := mustOnHost(t, m, host, "cat", "/proc/"+process+"/status")
		for _, want := range []string{"Seccomp:\t2", "CapInh:\t0000000000000000", "CapBnd:\t" + fieldOf(status, "CapEff"), "CapPrm:\t" + fieldOf(status, "CapEff")} {
			if !strings.Contains(status, want) {
				t.Errorf("process %s is not confined by %q:\n%s", process, want, status)
			}
		}
		for _, right := range machineRights {
			if bounding, err := strconv.ParseUint(fieldOf(status, "CapBnd"), 16, 64); err != nil || bounding&(1<<right) != 0 {
				t.Errorf("process %s may have capability %d: %v\n%s", process, right, err, status)
			}
		}
	}
	// What a node needs it has: its own network settings, devices and mounts.
	mustOnHost(t, m, host, "sh", "-ec", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo x >/dev/null; head -c1 /dev/urandom >/dev/null; "+
		"mkdir /run/m; mount -t tmpfs x /run/m; mknod /run/null c 1 3; echo x >/run/m/f; umount /run/m; mkdir -p /sys/fs/cgroup/*/kubepods")
}

func fieldOf(status, name string) string {
	for line := range strings.Lines(status) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// answerEscapes writes a line for each attempt.
func answerEscapes(w io.Writer) error {
	var all bytes.Buffer
	for name := range escapes {
		fmt.Fprintf(&all, "%s: %s\n", name, tryEscape(name))
	}
	_, err := w.Write(all.Bytes())
	return err
}
