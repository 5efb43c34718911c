package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
)

const sysctlRoot = "/proc/sys/"

// sysSettings are where the kernel has settings that are not below sysctlRoot and that nodes, their tuning and what makes a host ready for
// them change: huge pages, parameters of modules, how disks and processors work, whether SELinux enforces, and what the slices of
// systemd may use, which a kubelet that reserves something for them limits.
var sysSettings = []string{
	"/sys/kernel/mm/transparent_hugepage/*", "/sys/kernel/mm/transparent_hugepage/khugepaged/*", "/sys/kernel/mm/ksm/*",
	"/sys/kernel/mm/hugepages/*/nr_*", "/sys/devices/system/node/node*/hugepages/*/nr_*", "/sys/module/*/parameters/*", "/sys/kernel/uevent_helper",
	"/sys/block/*/queue/scheduler", "/sys/block/*/queue/read_ahead_kb", "/sys/block/*/queue/nr_requests",
	pciDevices + "*/driver_override", "/sys/devices/system/cpu/smt/control", "/sys/devices/system/cpu/cpu*/online", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
	"/sys/class/net/*/queues/*/?ps_cpus", selinux + "enforce", selinux + "booleans/*",
	cgroupRoot + "/*.slice/cpu.max", cgroupRoot + "/*.slice/cpu.weight", cgroupRoot + "/*.slice/cpuset.cpus", cgroupRoot + "/*.slice/cpuset.mems",
	cgroupRoot + "/*.slice/memory.max", cgroupRoot + "/*.slice/memory.high", cgroupRoot + "/*.slice/memory.low", cgroupRoot + "/*.slice/memory.min", cgroupRoot + "/*.slice/memory.swap.max", cgroupRoot + "/*.slice/pids.max",
}

const (
	selinux    = "/sys/fs/selinux/"
	pciDevices = "/sys/bus/pci/devices/"
	// pciDriver ends the name of a setting that is the driver of a device of PCI: plugins of GPUs and networks give devices to virtual
	// machines and programs by another one.
	pciDriver = "/driver"
)

// maxSetting is how long a setting may be, in bytes, to count as one.
const maxSetting = 4096

// volatileSettings change by themselves: which module logs, what one write does once, and what the kernel counts, draws or
// lowers. The name of the system and formats of programs have traces of their own.
var volatileSettings = []string{
	"net/netfilter/nf_log", "net/ipv4/route/flush", "net/ipv6/route/flush", "net/core/flow_limit", "net/ipv4/tcp_fastopen_key",
	"kernel/random/", "kernel/ns_last_pid", "kernel/tainted", "kernel/hung_task_warnings", "kernel/perf_event_max_sample_rate", "kernel/hostname", "fs/binfmt_misc/", "vm/stat_refresh",
}

// settings are those of the kernel that can be written: what nobody can write here, nobody here has written. Their names are
// paths, below sysctlRoot where they do not begin with a slash.
func (c Cleaner) settings() (entries, error) {
	found := entries{}
	look := func(name string) {
		path, sysfs := c.settingPath(name)
		// Interfaces, disks and modules come and go.
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o600 != 0o600 || unix.Access(path, unix.W_OK) != nil {
			return
		}
		value, err := os.ReadFile(path)
		if err != nil || len(value) > maxSetting {
			return
		}
		is := strings.TrimSpace(string(value))
		if _, after, ok := strings.Cut(is, "["); ok && sysfs { // the one of several that is chosen
			is, _, _ = strings.Cut(after, "]")
		}
		found[name] = "=" + strings.TrimPrefix(is, "(null)")
	}
	top := c.Root.Path(sysctlRoot)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(strings.TrimPrefix(path, top), "/"); err == nil && !d.IsDir() && !volatileSetting(name) {
			look(name)
		}
		return nil // what cannot be read has gone
	})
	if err != nil {
		return nil, fmt.Errorf("read the settings of the kernel: %w", err)
	}
	for _, pattern := range sysSettings {
		all, err := filepath.Glob(c.Root.Path(pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range all {
			look(strings.TrimPrefix(path, string(c.Root)))
		}
	}
	for _, device := range c.entriesOf(pciDevices) {
		target, _ := os.Readlink(c.Root.Path(pciDevices + device + pciDriver)) // none without a driver
		found[pciDevices+device+pciDriver] = "=" + strings.TrimPrefix(filepath.Base(target), ".")
	}
	return found, nil
}

func (c Cleaner) settingPath(name string) (path string, sysfs bool) {
	if filepath.IsAbs(name) {
		return c.Root.Path(name), true
	}
	return c.Root.Path(sysctlRoot + name), false
}

func volatileSetting(name string) bool {
	return slices.ContainsFunc(volatileSettings, func(p string) bool { return strings.HasPrefix(name, p) })
}

// ownSetting says whether a setting is not a node's: one that came is of an interface or a module
// that came, and has the kernel's default.
func ownSetting(ch change, _, _ entries) bool {
	// A module that came has taken a device that had no driver.
	return ch.before == "" || volatileSetting(ch.name) || ch.before == "=" && isPCIDriver(ch.name)
}

func isPCIDriver(name string) bool {
	return strings.HasPrefix(name, pciDevices) && strings.HasSuffix(name, pciDriver)
}

// rebind gives a device of PCI to the driver that it had.
func (c Cleaner) rebind(name, driver string) error {
	device := []byte(filepath.Base(filepath.Dir(name)))
	_ = os.WriteFile(c.Root.Path(name+"/unbind"), device, 0) // it may have none
	return os.WriteFile(c.Root.Path(pciDevices+"../drivers/"+driver+"/bind"), device, 0)
}

// setSettings gives settings their values. Some set others: forwarding sets the parameters of all interfaces, so it goes first;
// and what is a number of bytes or a share of all changes with its other form, so only the end counts.
func (c Cleaner) setSettings(before entries) error {
	names := slices.SortedFunc(keys(before), func(a, b string) int {
		if d := strings.Count(a, "/") - strings.Count(b, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	failed := map[string]error{}
	booleans := false
	for _, name := range names {
		path, _ := c.settingPath(name)
		if isPCIDriver(name) {
			continue // see below
		}
		// An end of line, as nothing at all would not be a write.
		failed[name] = os.WriteFile(path, []byte(strings.TrimPrefix(before[name], "=")+"\n"), 0)
		booleans = booleans || strings.HasPrefix(name, selinux+"booleans/")
	}
	for _, name := range names { // whatever driver_override said is back
		if isPCIDriver(name) {
			failed[name] = c.rebind(name, strings.TrimPrefix(before[name], "="))
		}
	}
	if booleans {
		failed[selinux+"booleans"] = os.WriteFile(c.Root.Path(selinux+"commit_pending_bools"), []byte("1"), 0)
	}
	now, err := c.settings()
	errs := []error{err}
	for _, name := range names {
		if now[name] != before[name] && failed[name] != nil {
			errs = append(errs, fmt.Errorf("restore the setting %s: %w", name, failed[name]))
		}
	}
	return errors.Join(errs...)
}

// binfmtRoot is where the kernel lists which interpreters run programs of other formats. One of a pod would run with the rights
// of whoever starts such a program.
const binfmtRoot = "/proc/sys/fs/binfmt_misc"

func (c Cleaner) binaryFormats() (entries, error) {
	found := entries{}
	for _, name := range c.entriesOf(binfmtRoot) {
		if is := c.attribute(binfmtRoot, name); name != "register" && name != "status" {
			found[name] = "=" + strings.ReplaceAll(is, "\n", ", ")
		}
	}
	return found, nil
}

func (c Cleaner) removeBinaryFormats(_ context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		if err := os.WriteFile(c.Root.Path(filepath.Join(binfmtRoot, name)), []byte("-1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the format of programs %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// runningName is the name of the running system. A step of its own restores it: see restoreHostname.
func (c Cleaner) runningName() (entries, error) {
	name, err := c.Hostname()
	return entries{runningSystem: name}, err
}

const runningSystem = "running"

func saysName(ch change) string {
	return fmt.Sprintf("the running system's name %q, which was %q before", ch.now, ch.before)
}

// environmentTrace is that of the variables that systemd gives to every service: LD_PRELOAD among them has all of them load a library.
func (c Cleaner) environmentTrace() trace {
	change := func(ctx context.Context, verb string, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}
		return c.tool(ctx, "systemctl", append([]string{verb}, arguments...)...)
	}
	return trace{
		kind: kindEnvironment, word: "variable of all services", gone: true, look: c.environment,
		remove: func(ctx context.Context, names []string) error { return change(ctx, "unset-environment", names) },
		restore: func(ctx context.Context, before entries) error {
			var all []string
			var errs []error
			for _, name := range slices.Sorted(keys(before)) {
				if strings.HasPrefix(before[name], "=$'") {
					errs = append(errs, fmt.Errorf("restore the variable %s of all services: its value is quoted", name))
					continue
				}
				all = append(all, name+before[name])
			}
			return errors.Join(append(errs, change(ctx, "set-environment", all))...)
		},
	}
}

func (c Cleaner) environment(ctx context.Context) (entries, error) {
	found := entries{}
	if !c.Runner.Has("systemctl") {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, err := c.Runner.Run(ctx, "systemctl", "show-environment")
	if errors.As(err, new(*command.ExitError)) {
		return found, nil // another program of this name, in a container
	}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = "=" + value
		}
	}
	return found, err
}

// kexecLoaded says whether a kernel is loaded that a reboot would start, past the firmware and the boot loader.
const kexecLoaded = "/sys/kernel/kexec_loaded"

// kexecTrace is that of the kernel that a reboot would start.
func (c Cleaner) kexecTrace() trace {
	return trace{
		kind: kindKexec, word: "kernel for the next boot", gone: true,
		look: func(context.Context) (entries, error) {
			if c.attribute(kexecLoaded) != "1" {
				return entries{}, nil
			}
			return entries{"(kexec)": "loaded"}, nil
		},
		remove: func(context.Context, []string) error {
			if c.Root != "" {
				return nil // that of a pretended host is not this machine's
			}
			const unload = 1 // KEXEC_FILE_UNLOAD
			if err := unix.KexecFileLoad(-1, -1, "", unload); err != nil {
				return fmt.Errorf("unload the kernel for the next boot: %w", err)
			}
			return nil
		},
	}
}
