package localhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

// Destroy cuts the power of a host and deletes its disk. A host that does not
// exist is not an error.
func (m *Manager) Destroy(ctx context.Context, host string) error {
	if err := sandbox.ValidateName(host); err != nil {
		return err
	}
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.powerOff(ctx, host, false); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return removeDisk(m.Dir(host))
}

// DestroyAll switches all hosts off, by force, and removes the network and every
// control group of the instance; with purge their disks too. It needs nothing but
// what is on disk and in the kernel, and may be repeated.
func (m *Manager) DestroyAll(ctx context.Context, purge bool) error {
	if err := network.ValidateName(m.Name); err != nil {
		return err
	}
	unlock, err := m.lockAll(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	names, err := m.names()
	if err != nil {
		return err
	}
	if err := inParallel(names, func(host string) error { return m.powerOff(ctx, host, false) }); err != nil {
		return err
	}
	if err := m.removeGroups(ctx); err != nil {
		return err
	}
	if err := network.Remove(m.Name); err != nil {
		return err
	}
	if !purge {
		return nil
	}
	// Directories without a spec, too: hosts that were never finished.
	entries, err := os.ReadDir(m.hostsDir())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := removeDisk(m.Dir(e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(m.hostsDir()), os.RemoveAll(filepath.Join(m.StateDir, "locks")))
}

// removeGroups removes the control groups of the instance, those of hosts that
// have lost their disk included.
func (m *Manager) removeGroups(ctx context.Context) error {
	layout, err := m.layout()
	if errors.Is(err, cgroup.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	left, err := layout.Hosts(m.Name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for _, host := range left {
		if err := layout.Group(m.Name, host).Remove(ctx); err != nil {
			return err
		}
	}
	return layout.RemoveInstance(m.Name)
}

// removeDisk deletes the directory of a host. The spec goes first, so that an
// interrupted removal leaves no host with half a disk.
func removeDisk(dir string) error {
	if err := checkNoMounts(dir); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, specFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// checkNoMounts guards a deletion: all mounts of a host are in its own namespace,
// but were one of them here, its content would be deleted as well.
func checkNoMounts(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			return fmt.Errorf("not deleting %s: something is mounted at %s; unmount it first", dir, fields[4])
		}
	}
	return nil
}

// inParallel runs fn for all names and joins the errors.
func inParallel(names []string, fn func(string) error) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = fn(name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
