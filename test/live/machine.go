package live

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Machine is what a plane must leave on the machine as it found it, without what tests
// that run side by side have there.
type Machine struct {
	plane                                  Plane
	bin                                    string
	mounts, cgroups, namespaces, processes []string
}

// Look takes stock of the machine for the test of a plane. The programs are those in bin.
func (p Plane) Look(t testing.TB, bin string) Machine {
	t.Helper()
	return Machine{
		plane: p, bin: bin,
		mounts: p.own(mounts(t)), cgroups: p.own(cgroups()), namespaces: p.own(names("/run/netns")), processes: p.processes(bin),
	}
}

// AssertUnchanged holds that nothing was left behind or taken away since the Look.
func (m Machine) AssertUnchanged(t testing.TB) {
	t.Helper()
	now := m.plane.Look(t, m.bin)
	for _, c := range []struct {
		what        string
		before, now []string
	}{
		{"mount", m.mounts, now.mounts},
		{"cgroup", m.cgroups, now.cgroups},
		{"network namespace", m.namespaces, now.namespaces},
		{"process", m.processes, now.processes},
	} {
		for _, left := range c.now {
			if !slices.Contains(c.before, left) {
				t.Errorf("%s left behind: %s", c.what, left)
			}
		}
		for _, gone := range c.before {
			if !slices.Contains(c.now, gone) && c.what != "process" {
				t.Errorf("%s of the machine is gone: %s", c.what, gone)
			}
		}
	}
}

// foreign says whether a trace is of another test: it names another plane, or lies below the
// directory for temporary files and does not name this one.
func (p Plane) foreign(trace string) bool {
	if strings.HasPrefix(trace, os.TempDir()+"/") && !strings.Contains(trace, p.Name) {
		return true
	}
	return slices.ContainsFunc(named.FindAllString(trace, -1), func(name string) bool { return name != p.Name })
}

// own leaves out what other tests have.
func (p Plane) own(traces []string) []string { return slices.DeleteFunc(traces, p.foreign) }

func mounts(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, strings.Fields(s.Text())[4])
	}
	return out
}

// cgroups looks two levels deep, as far as an instance reaches.
func cgroups() []string {
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*"} {
		matches, _ := filepath.Glob(pattern)
		for _, m := range matches {
			if info, err := os.Stat(m); err == nil && info.IsDir() {
				out = append(out, m)
			}
		}
	}
	return out
}

func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// processes are those that run one of the programs below bin, in any namespace. One that
// names no plane counts as our own.
func (p Plane) processes(bin string) []string {
	var out []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, bin+"/") {
			continue
		}
		dir := filepath.Dir(link)
		traces := ""
		for _, file := range []string{"environ", "cmdline", "cgroup"} {
			data, _ := os.ReadFile(filepath.Join(dir, file))
			traces += string(data) + "\n"
		}
		// One that has ended meanwhile leaves no traces to tell whose it was.
		if _, err := os.Readlink(link); err == nil && !p.foreign(traces) {
			out = append(out, filepath.Base(dir)+" "+exe)
		}
	}
	return out
}

// ProcessesOn are those of a name on the local hosts that match an expression.
func (p Plane) ProcessesOn(host, name string) []int {
	group := regexp.MustCompile("(?m)/" + p.Name + "/" + host + "(/|$)")
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		dir := filepath.Dir(path)
		comm, _ := os.ReadFile(path)
		if strings.TrimSpace(string(comm)) != name {
			continue
		}
		if groups, _ := os.ReadFile(filepath.Join(dir, "cgroup")); group.Match(groups) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}
