package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// leaf is the v2 group below a host's group that holds its processes.
const leaf = "init"

// Group is the control group of one host in every hierarchy.
type Group struct {
	layout   Layout
	instance string
	host     string
}

// Group names the group of a host; Create makes it.
func (l Layout) Group(instance, host string) Group { return Group{l, instance, host} }

// Dirs are the group's directories, one per hierarchy.
func (g Group) Dirs() []string {
	dirs := make([]string, 0, len(g.layout.Hierarchies))
	for _, h := range g.layout.Hierarchies {
		dirs = append(dirs, filepath.Join(h.Mountpoint, g.instance, g.host))
	}
	return dirs
}

// Create makes the group and everything above it. It is idempotent.
func (g Group) Create() error {
	for _, h := range g.layout.Hierarchies {
		var err error
		if g.layout.Unified {
			err = g.createUnified(h)
		} else {
			err = g.createLegacy(h)
		}
		if err != nil {
			return fmt.Errorf("cgroup %s/%s: %w", g.instance, g.host, err)
		}
	}
	return nil
}

func (g Group) createLegacy(h Hierarchy) error {
	parent := h.Mountpoint
	for _, name := range []string{g.instance, g.host} {
		dir := filepath.Join(parent, name)
		if err := mkdir(dir); err != nil {
			return err
		}
		// A fresh cpuset is empty, and no process can join it before it is filled.
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(parent, dir, f); err != nil {
				return err
			}
		}
		parent = dir
	}
	return nil
}

// inherit copies a setting of the parent unless there is one, or no such setting.
func inherit(parent, dir, file string) error {
	own, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || len(bytes.TrimSpace(own)) > 0 {
		return err
	}
	value, err := os.ReadFile(filepath.Join(parent, file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), value, 0)
}

func (g Group) createUnified(h Hierarchy) error {
	host := filepath.Join(h.Mountpoint, g.instance, g.host)
	parent := h.Mountpoint
	for _, dir := range []string{filepath.Dir(host), host} {
		if err := mkdir(dir); err != nil {
			return err
		}
		if err := Delegate(parent); err != nil {
			return fmt.Errorf("%w; if Slipway runs in a container, give it the machine's cgroup namespace", err)
		}
		parent = dir
	}
	return mkdir(filepath.Join(host, leaf))
}

// Delegate enables every controller of the v2 group at dir for its children. The
// group must have no process of its own, unless it is the root of the hierarchy.
func Delegate(dir string) error {
	controllers, err := enabledControllers(dir)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("enable controller %s below %s: %w", c, dir, err)
		}
	}
	return nil
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// Join moves the process into the top of the group, which then becomes the root
// of a cgroup namespace that the process creates.
func (g Group) Join(pid int) error { return g.move(pid, ".") }

// JoinLeaf moves the process to where the host's own processes live.
func (g Group) JoinLeaf(pid int) error {
	if g.layout.Unified {
		return g.move(pid, leaf)
	}
	return g.move(pid, ".")
}

func (g Group) move(pid int, below string) error {
	for _, dir := range g.Dirs() {
		if err := os.WriteFile(filepath.Join(dir, below, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}

// EnterLeaf is for the init of a host, inside its cgroup namespace: it leaves the
// namespace's root group so that controllers can be delegated from there. With
// v1 there is nothing to do.
func (l Layout) EnterLeaf() error {
	if !l.Unified {
		return nil
	}
	if err := os.WriteFile(filepath.Join(Root, leaf, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	// The launcher, too, is in the root group until it has ended.
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := Delegate(Root)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Procs lists the processes in the group and below it, each once.
func (g Group) Procs() ([]int, error) {
	seen := map[int]bool{}
	var pids []int
	for _, dir := range g.Dirs() {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil || !d.IsDir() {
				return err
			}
			in, err := procsIn(path)
			for _, pid := range in {
				if !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

func procsIn(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		// 0 stands for a process that is invisible from this PID namespace.
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
