package e2e

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is what a plane must leave on the machine as it found it.
type machine struct {
	mounts, cgroups, namespaces, processes []string
}

// look takes stock of the machine.
func look(t *testing.T, bin string) machine {
	t.Helper()
	return machine{mounts: mounts(t), cgroups: cgroups(), namespaces: names("/run/netns"), processes: processes(bin)}
}

func (m machine) assertUnchanged(t *testing.T, now machine) {
	t.Helper()
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

func mounts(t *testing.T) []string {
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

// processes are those that run one of the binaries below bin, in any namespace.
func processes(bin string) []string {
	var out []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(exe, bin+"/") {
			out = append(out, filepath.Base(filepath.Dir(link))+" "+exe)
		}
	}
	return out
}
