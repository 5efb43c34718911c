package cgroup

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	legacyMounts = `30 20 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
32 30 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
34 30 0:27 / /elsewhere rw,relatime - cgroup cgroup rw,memory
`
	emptyUnified = "40 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	// readOnlyUnified is what a container has that may not write it.
	readOnlyUnified = "39 30 0:29 / /run/unified ro,nosuid - cgroup2 cgroup2 rw\n"
	unified         = "40 20 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestParse(t *testing.T) {
	all := []string{"cpu", "cpuset", "io", "memory", "pids"}
	legacy := []Hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", []string{"cpu", "cpuacct"}}, {"/sys/fs/cgroup/memory", []string{"memory"}}}
	legacyOnly, hybrid := Layout{Hierarchies: legacy}, Layout{Hierarchies: append(slices.Clone(legacy), Hierarchy{"/sys/fs/cgroup/unified", nil})}
	for _, c := range []struct {
		name, mountinfo string
		controllers     []string
		want            Layout
		missing         []string
		err             error
	}{
		{"v1, joint and named hierarchies", legacyMounts, nil, legacyOnly, []string{"cpuset", "pids"}, nil},
		{"hybrid counts as v1", legacyMounts + emptyUnified, nil, hybrid, []string{"cpuset", "pids"}, nil},
		{"v1 beside a v2 that is read-only", legacyMounts + readOnlyUnified, nil, legacyOnly, []string{"cpuset", "pids"}, nil},
		{"v1 beside a v2 whose file system is", legacyMounts + strings.Replace(emptyUnified, "cgroup2 rw", "cgroup2 ro,nsdelegate", 1), nil, legacyOnly, []string{"cpuset", "pids"}, nil},
		{"v1 beside a v2 that is mounted read-only first", legacyMounts + readOnlyUnified + emptyUnified, nil, hybrid, []string{"cpuset", "pids"}, nil},
		{"v2 that is read-only, as trying it will tell", strings.Replace(unified, "rw,nosuid", "ro,nosuid", 1), all, Layout{Unified: true, Hierarchies: []Hierarchy{{"/sys/fs/cgroup", all}}}, nil, nil},
		{"v2", unified, all, Layout{Unified: true, Hierarchies: []Hierarchy{{"/sys/fs/cgroup", all}}}, nil, nil},
		{"v2 without a controller", unified, []string{"cpu", "memory", "pids"},
			Layout{Unified: true, Hierarchies: []Hierarchy{{"/sys/fs/cgroup", []string{"cpu", "memory", "pids"}}}}, []string{"cpuset"}, nil},
		{"nothing usable", emptyUnified, nil, Layout{}, nil, ErrNone},
		{"nothing at all", "", nil, Layout{}, nil, ErrNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse(strings.NewReader(c.mountinfo), func(string) ([]string, error) { return c.controllers, nil })
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if got.Unified != c.want.Unified || !slices.EqualFunc(got.Hierarchies, c.want.Hierarchies, func(a, b Hierarchy) bool {
				return a.Mountpoint == b.Mountpoint && slices.Equal(a.Controllers, b.Controllers)
			}) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err == nil && !slices.Equal(got.Missing(), c.missing) {
				t.Errorf("missing %v, want %v", got.Missing(), c.missing)
			}
		})
	}
}

func TestMounts(t *testing.T) {
	l, err := parse(strings.NewReader(legacyMounts), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := l.Mounts()
	if len(got) != 2 || got[0].Data != "cpu,cpuacct" || got[0].Dir != "cpu,cpuacct" || !slices.Equal(got[0].Aliases, []string{"cpu", "cpuacct"}) {
		t.Errorf("joint hierarchy: %+v", got)
	}
	if got[1].Dir != "memory" || got[1].FSType != "cgroup" || got[1].Aliases != nil {
		t.Errorf("single hierarchy: %+v", got[1])
	}
	if got := (Layout{Unified: true}).Mounts(); len(got) != 1 || got[0].FSType != "cgroup2" || got[0].Dir != "." {
		t.Errorf("v2: %+v", got)
	}
}
