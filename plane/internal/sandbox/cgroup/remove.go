package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// retryEvery is how often Remove looks whether processes have gone.
const retryEvery = 5 * time.Millisecond

// Remove kills what is left in the group and removes its directories, deepest
// first. It retries until ctx ends, since a group is busy until the last of its
// processes has been reaped. A group that does not exist is not an error.
func (g Group) Remove(ctx context.Context) error {
	for {
		if err := g.kill(); err != nil {
			return err
		}
		left, err := g.rmdirs()
		if left == "" || (err != nil && !errors.Is(err, unix.EBUSY)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup %s is still in use: %w", left, context.Cause(ctx))
		case <-time.After(retryEvery):
		}
	}
}

// kill sends SIGKILL to every process in the group. Processes are pinned by
// descriptors first and looked up again, so that a recycled number is never hit.
func (g Group) kill() error {
	pids, err := g.Procs()
	if err != nil || len(pids) == 0 {
		return err
	}
	if slices.Contains(pids, os.Getpid()) {
		return fmt.Errorf("refusing to empty cgroup %s/%s: this very process is in it", g.instance, g.host)
	}
	pinned := map[int]int{}
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			pinned[pid] = fd
			defer unix.Close(fd)
		}
	}
	still, err := g.Procs()
	if err != nil {
		return err
	}
	for _, pid := range still {
		if fd, ok := pinned[pid]; ok {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
	}
	return nil
}

// rmdirs removes all directories that can be removed and names one that cannot.
func (g Group) rmdirs() (left string, err error) {
	for _, dir := range g.Dirs() {
		if e := rmdirAll(dir); e != nil && (err == nil || !errors.Is(e, unix.EBUSY)) {
			left, err = dir, e
		}
	}
	return left, err
}

// rmdirAll is os.RemoveAll for a file system whose files cannot be removed.
func rmdirAll(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", d, err)
		}
	}
	return nil
}

// Hosts lists the hosts of an instance that have a group in any hierarchy.
func (l Layout) Hosts(instance string) ([]string, error) {
	var hosts []string
	for _, h := range l.Hierarchies {
		entries, err := os.ReadDir(filepath.Join(h.Mountpoint, instance))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(hosts, e.Name()) {
				hosts = append(hosts, e.Name())
			}
		}
	}
	return hosts, nil
}

// RemoveInstance removes the groups that held the groups of the hosts. It fails
// with EBUSY while a host has one.
func (l Layout) RemoveInstance(instance string) error {
	for _, h := range l.Hierarchies {
		dir := filepath.Join(h.Mountpoint, instance)
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}
