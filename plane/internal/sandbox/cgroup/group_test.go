package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// tree makes files below a directory that stands for a cgroup file system.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func content(t *testing.T, path string) string {
	t.Helper()
	_ = os.Chmod(path, 0o600) // the kernel's files are there before they are written to
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCreateLegacyFillsCpuset(t *testing.T) {
	root := tree(t, map[string]string{
		"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n",
		// What the kernel makes with a new group.
		"inst/cpuset.cpus": "", "inst/cpuset.mems": "\n", "inst/host/cpuset.cpus": "", "inst/host/cpuset.mems": "",
	})
	g := Layout{Hierarchies: []Hierarchy{{root, []string{"cpuset"}}}}.Group("inst", "host")
	for range 2 {
		if err := g.Create(); err != nil {
			t.Fatal(err)
		}
	}
	if got := content(t, filepath.Join(root, "inst/host/cpuset.cpus")); got != "0-1\n" {
		t.Errorf("cpuset.cpus is %q", got)
	}
	if got := content(t, filepath.Join(root, "inst/host/cpuset.mems")); got != "0\n" {
		t.Errorf("cpuset.mems is %q", got)
	}
}

func TestCreateKeepsAChosenCpuset(t *testing.T) {
	root := tree(t, map[string]string{"cpuset.cpus": "0-3\n", "inst/cpuset.cpus": "1\n", "inst/host/cpuset.cpus": ""})
	if err := (Layout{Hierarchies: []Hierarchy{{root, []string{"cpuset"}}}}).Group("inst", "host").Create(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(root, "inst/host/cpuset.cpus")); got != "1\n" {
		t.Errorf("cpuset.cpus is %q, want that of the instance", got)
	}
}

func TestCreateUnifiedDelegates(t *testing.T) {
	root := tree(t, map[string]string{
		"cgroup.controllers": "memory\n", "cgroup.subtree_control": "", "inst/cgroup.controllers": "memory\n", "inst/cgroup.subtree_control": "",
	})
	g := Layout{Unified: true, Hierarchies: []Hierarchy{{root, []string{"memory"}}}}.Group("inst", "host")
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "inst"} {
		if got := content(t, filepath.Join(root, dir, "cgroup.subtree_control")); got != "+memory" {
			t.Errorf("%s/cgroup.subtree_control: %q", dir, got)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "inst/host/cgroup.subtree_control")); err == nil {
		t.Error("controllers were delegated by the group that processes join first")
	}
	if err := g.JoinLeaf(42); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(root, "inst/host/init/cgroup.procs")); got != "42" {
		t.Errorf("the leaf holds %q", got)
	}
}

func TestProcsCollectsTheTree(t *testing.T) {
	a := tree(t, map[string]string{"inst/host/cgroup.procs": "10\n0\n", "inst/host/kubepods/pod1/cgroup.procs": "11\n"})
	b := tree(t, map[string]string{"inst/host/cgroup.procs": "10\n12\n", "inst/other/cgroup.procs": "99\n"})
	g := Layout{Hierarchies: []Hierarchy{{a, []string{"cpu"}}, {b, []string{"memory"}}}}.Group("inst", "host")
	pids, err := g.Procs()
	slices.Sort(pids)
	if err != nil || !slices.Equal(pids, []int{10, 11, 12}) {
		t.Errorf("got %v, %v", pids, err)
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	l := Layout{Hierarchies: []Hierarchy{{root, []string{"cpu"}}}}
	if err := os.MkdirAll(filepath.Join(root, "inst/host/a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if hosts, err := l.Hosts("inst"); err != nil || !slices.Equal(hosts, []string{"host"}) {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	for range 2 {
		if err := l.Group("inst", "host").Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.RemoveInstance("inst"); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(root); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestRemoveRefusesItsOwnGroup(t *testing.T) {
	root := tree(t, map[string]string{"inst/host/cgroup.procs": ""})
	l := Layout{Hierarchies: []Hierarchy{{root, []string{"cpu"}}}}
	if err := l.Group("inst", "host").Join(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Group("inst", "host").Remove(ctx); err == nil {
		t.Error("removed the group of the caller")
	}
}
