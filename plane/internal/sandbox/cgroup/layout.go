package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is where a host, and nearly every machine, has its hierarchies.
const Root = "/sys/fs/cgroup"

// ErrNone means that no usable hierarchy is mounted.
var ErrNone = errors.New("no cgroup hierarchy with controllers is mounted at " + Root)

// Hierarchy is one mounted tree of groups.
type Hierarchy struct {
	// Mountpoint on the machine.
	Mountpoint string `json:"mountpoint"`
	// Controllers it holds, sorted. None is the cgroup2 beside those of v1, where
	// programs of the kernel guard groups; hosts do not mount it.
	Controllers []string `json:"controllers"`
}

// Layout is how the machine offers its controllers.
type Layout struct {
	// Unified tells v2 from v1.
	Unified bool `json:"unified,omitempty"`
	// Hierarchies is a single one if Unified; otherwise a cgroup2, if there is one that can
	// be written, is last.
	Hierarchies []Hierarchy `json:"hierarchies,omitempty"`
}

// Detect reads the layout of this machine.
func Detect() (Layout, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Layout{}, err
	}
	defer f.Close()
	return parse(f, enabledControllers)
}

// parse finds the hierarchies in a mountinfo; controllers reads those of a
// cgroup2 mount.
func parse(mountinfo io.Reader, controllers func(mountpoint string) ([]string, error)) (Layout, error) {
	// guards are the v2 hierarchies in which groups can be made: a container with v1 may
	// have a v2 that is read-only.
	var v1, v2, guards []Hierarchy
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		m, ok := parseLine(lines.Text())
		if !ok {
			continue
		}
		switch m.fstype {
		case "cgroup":
			if c := legacyControllers(m.options); len(c) > 0 && !contains(v1, c) {
				v1 = append(v1, Hierarchy{m.mountpoint, c})
			}
		case "cgroup2":
			c, err := controllers(m.mountpoint)
			if err != nil {
				return Layout{}, err
			}
			v2 = append(v2, Hierarchy{m.mountpoint, c})
			if !m.readOnly {
				guards = append(guards, Hierarchy{Mountpoint: m.mountpoint})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Layout{}, err
	}
	switch {
	case len(v1) > 0:
		return Layout{Hierarchies: append(v1, guards[:min(len(guards), 1)]...)}, nil
	case len(v2) > 0 && len(v2[0].Controllers) > 0:
		return Layout{Unified: true, Hierarchies: v2[:1]}, nil
	default:
		return Layout{}, ErrNone
	}
}

// mounted is one line of a mountinfo.
type mounted struct {
	mountpoint, fstype, options string
	// readOnly is true if the mount is, or all that is mounted.
	readOnly bool
}

// parseLine splits a line as described in proc_pid_mountinfo(5).
func parseLine(line string) (mounted, bool) {
	left, right, found := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !found || len(l) < 6 || len(r) < 3 {
		return mounted{}, false
	}
	readOnly := slices.Contains(strings.Split(l[5]+","+r[2], ","), "ro")
	return mounted{mountpoint: l[4], fstype: r[0], options: r[2], readOnly: readOnly}, true
}

// legacyControllers picks the controllers out of the options of a v1 mount; a
// named hierarchy has none.
func legacyControllers(options string) []string {
	known := []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"}
	var out []string
	for _, o := range strings.Split(options, ",") {
		if slices.Contains(known, o) {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return out
}

// contains tells a second mount of the same hierarchy.
func contains(all []Hierarchy, controllers []string) bool {
	return slices.ContainsFunc(all, func(h Hierarchy) bool { return slices.Equal(h.Controllers, controllers) })
}

func enabledControllers(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	c := strings.Fields(string(b))
	slices.Sort(c)
	return c, nil
}

// Guard is the directory of an instance where programs that guard all of its hosts are
// attached, out of their reach: above the groups that are the roots of theirs. It is empty
// on a machine without a cgroup2 that can be written.
func (l Layout) Guard(instance string) string {
	for _, h := range l.Hierarchies {
		if l.Unified || len(h.Controllers) == 0 {
			return filepath.Join(h.Mountpoint, instance)
		}
	}
	return ""
}

// Missing returns what the kubelet needs and the machine does not offer.
func (l Layout) Missing() []string {
	required := []string{"cpu", "cpuacct", "cpuset", "memory", "pids"}
	if l.Unified {
		required = []string{"cpu", "cpuset", "memory", "pids"}
	}
	var missing []string
	for _, c := range required {
		if !slices.ContainsFunc(l.Hierarchies, func(h Hierarchy) bool { return slices.Contains(h.Controllers, c) }) {
			missing = append(missing, c)
		}
	}
	return missing
}

// Writable says whether groups can be made in every hierarchy. It makes none to find out:
// one would stay behind when the program is killed meanwhile.
func (l Layout) Writable() error {
	for _, h := range l.Hierarchies {
		if err := unix.Access(h.Mountpoint, unix.W_OK); err != nil {
			return fmt.Errorf("create a cgroup: %w", &fs.PathError{Op: "access", Path: h.Mountpoint, Err: err})
		}
	}
	return nil
}

// Mount is a hierarchy as a host mounts it below Root.
type Mount struct {
	// Dir is relative to Root.
	Dir string
	// FSType is cgroup or cgroup2.
	FSType string
	// Data is the mount option.
	Data string
	// Aliases are names of single controllers of a joint hierarchy, to be links to Dir.
	Aliases []string
}

// Mounts says what a host has to mount inside its cgroup namespace.
func (l Layout) Mounts() []Mount {
	if l.Unified {
		return []Mount{{Dir: ".", FSType: "cgroup2"}}
	}
	mounts := make([]Mount, 0, len(l.Hierarchies))
	for _, h := range l.Hierarchies {
		if len(h.Controllers) == 0 {
			continue
		}
		m := Mount{Dir: strings.Join(h.Controllers, ","), FSType: "cgroup", Data: strings.Join(h.Controllers, ",")}
		if len(h.Controllers) > 1 {
			m.Aliases = h.Controllers
		}
		mounts = append(mounts, m)
	}
	return mounts
}
