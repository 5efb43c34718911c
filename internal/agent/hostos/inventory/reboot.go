package inventory

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// rebootMarks are left by updates that take effect with the next boot: on Debian and its derivatives, which name
// the packages in a file beside it, and on SUSE.
var rebootMarks = []string{"/run/reboot-required", "/run/reboot-needed"}

// needsRestarting is the program of the RHEL family that compares what was installed with the time of the boot.
const needsRestarting = "needs-restarting"

// needsRestartingTimeout bounds that program, which reads the database of packages.
const needsRestartingTimeout = time.Minute

// Reboots finds out whether the operating system asks for a reboot. It remembers since when it does.
type Reboots struct {
	Root hostfs.Root
	// Runner runs programs of the host.
	Runner interface {
		Has(name string) bool
		Run(ctx context.Context, name string, args ...string) ([]byte, error)
	}
	// Now is the clock.
	Now func() time.Time

	mu sync.Mutex
	// restarting is what needsRestarting said last, which is good until due.
	restarting []byte
	due        time.Time
	since      time.Time
}

// Required says why the host should be rebooted; nil when it need not be.
func (r *Reboots) Required(ctx context.Context) *infrav1.HostRebootRequired {
	r.mu.Lock()
	defer r.mu.Unlock()
	var asked []time.Time
	packages := map[string]bool{}
	for _, mark := range rebootMarks {
		info, err := os.Lstat(r.Root.Path(mark))
		if err != nil {
			continue
		}
		asked = append(asked, info.ModTime())
		named, _ := r.Root.ReadFile(mark + ".pkgs")
		for name := range strings.FieldsSeq(string(named)) {
			packages[name] = true
		}
	}
	kernel, installed := r.newerKernel()
	if kernel != "" {
		asked = append(asked, installed)
	}
	if said := r.needsRestarting(ctx); bytes.Contains(said, []byte("Reboot is required")) {
		asked = append(asked, r.Now())
		for line := range strings.Lines(string(said)) {
			if name, found := strings.CutPrefix(strings.TrimSpace(line), "* "); found {
				packages[name] = true
			}
		}
	}
	if len(asked) == 0 {
		r.since = time.Time{}
		return nil
	}
	// Each further update touches a mark.
	if first := slices.MinFunc(asked, time.Time.Compare); r.since.IsZero() || first.Before(r.since) {
		r.since = first.Truncate(time.Second)
	}
	return &infrav1.HostRebootRequired{KernelVersion: kernel, Packages: slices.Sorted(maps.Keys(packages)), Since: metav1.NewTime(r.since)}
}

// needsRestarting runs the program, at most once an hour, as it takes a second of a processor. It ends with an
// exit code when it asks for a reboot.
func (r *Reboots) needsRestarting(ctx context.Context) []byte {
	if now := r.Now(); !now.Before(r.due) && r.Runner.Has(needsRestarting) {
		ctx, cancel := context.WithTimeout(ctx, needsRestartingTimeout)
		defer cancel()
		r.restarting, _ = r.Runner.Run(ctx, needsRestarting, "--reboothint")
		r.due = now.Add(interval)
	}
	return r.restarting
}

// newerKernel is the newest kernel of the running one's flavour that came after the boot, and when it did. One that
// was there at the boot was not chosen, and would not be by another.
func (r *Reboots) newerKernel() (release string, installed time.Time) {
	running, _ := r.Root.ReadFile("/proc/sys/kernel/osrelease")
	newest, boot := parseKernel(strings.TrimSpace(string(running))), r.bootTime()
	if boot.IsZero() {
		return "", time.Time{}
	}
	for name, file := range r.kernels() {
		k := parseKernel(name)
		info, err := os.Stat(file)
		if err != nil || k.flavour != newest.flavour || slices.Compare(k.version, newest.version) <= 0 {
			continue
		}
		changed, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		if at := time.Unix(changed.Ctim.Unix()); at.After(boot) {
			newest, release, installed = k, name, at
		}
	}
	return release, installed
}

// kernels are the files of those that are installed, by their releases.
func (r *Reboots) kernels() map[string]string {
	found := map[string]string{}
	boot, _ := os.ReadDir(r.Root.Path("/boot"))
	for _, f := range boot {
		if release, isKernel := strings.CutPrefix(f.Name(), "vmlinuz-"); isKernel {
			found[release] = filepath.Join(r.Root.Path("/boot"), f.Name())
		}
	}
	modules, _ := os.ReadDir(r.Root.Path("/usr/lib/modules"))
	for _, f := range modules {
		found[f.Name()] = filepath.Join(r.Root.Path("/usr/lib/modules"), f.Name(), "vmlinuz")
	}
	return found
}

// bootTime is the kernel's; zero when it cannot be read.
func (r *Reboots) bootTime() time.Time {
	stat, _ := r.Root.ReadFile("/proc/stat")
	for line := range strings.Lines(string(stat)) {
		if text, found := strings.CutPrefix(line, "btime "); found {
			if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Time{}
}

// kernel is the release of one, such as 6.1.0-28-cloud-amd64 or 5.14.0-503.11.1.el9_5.x86_64.
type kernel struct {
	// version are the numbers before the first letter.
	version []int
	// flavour is the rest without its numbers, which are the distribution's.
	flavour string
}

func parseKernel(release string) kernel {
	digits := func(r rune) bool { return r >= '0' && r <= '9' }
	letters := strings.IndexFunc(release, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
	if letters < 0 {
		letters = len(release)
	}
	var k kernel
	for _, text := range strings.FieldsFunc(release[:letters], func(r rune) bool { return !digits(r) }) {
		number, _ := strconv.Atoi(text)
		k.version = append(k.version, number)
	}
	k.flavour = strings.Map(func(r rune) rune {
		if digits(r) || r == '_' {
			return -1
		}
		return r
	}, release[letters:])
	return k
}
