package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/durable"
)

// ownFiles are those of the directories of Kubernetes. One of each directory is named: any is one too
// many. A step of the reset empties them. Without a record, configurations of known network plugins are among them: the
// next cluster's kubelet would use them.
func (c Cleaner) ownFiles(rec *record) trace {
	return trace{kind: "Kubernetes", word: "file", always: true, look: func(context.Context) (entries, error) {
		found, err := c.firstFiles(directories)
		configs, failed := c.pluginConfigs(rec)
		for _, name := range configs {
			found[name] = "there"
		}
		return found, errors.Join(err, failed)
	}}
}

// pluginNames are those of the usual network plugins in the names of their configurations.
var pluginNames = []string{"calico", "canal", "flannel", "cilium", "multus", "weave", "antrea", "kuberouter", "kube-router", "ovn-k", "kindnet"}

// pluginConfigs are configurations of known network plugins, on a host of which nobody knows what was there before.
func (c Cleaner) pluginConfigs(rec *record) ([]string, error) {
	if rec.of(trace{kind: kindFile}) != nil {
		return nil, nil
	}
	var names []string
	err := c.withDir(cniConfigs, func(d *durable.Dir) error {
		found, err := d.Entries()
		for _, e := range found {
			if slices.ContainsFunc(pluginNames, func(plugin string) bool { return strings.Contains(e.Name(), plugin) }) {
				names = append(names, filepath.Join(cniConfigs, e.Name()))
			}
		}
		return err
	})
	return names, err
}

// removePluginConfigs removes them.
func (c Cleaner) removePluginConfigs(rec *record) error {
	names, err := c.pluginConfigs(rec)
	return errors.Join(err, c.withDir(cniConfigs, func(d *durable.Dir) error {
		var errs []error
		for _, name := range names {
			errs = append(errs, d.RemoveAll(filepath.Base(name)))
		}
		return errors.Join(errs...)
	}))
}

// emptyDirectories empties those of Kubernetes. Of one that is a link which was not there before only the link goes:
// to empty what it leads to could be to empty anything.
func (c Cleaner) emptyDirectories(rec *record) error {
	var errs []error
	for _, dir := range directories {
		now := entries{}
		if err := c.walk(place{path: dir, only: true, added: true}, now); err != nil {
			errs = append(errs, err)
			continue
		}
		if before := rec.of(trace{kind: kindFile}); before != nil && strings.HasPrefix(now[dir], elsewhere) && before[dir] != now[dir] {
			err := c.reached(dir, before)
			if err == nil {
				err = durable.RemoveIn(string(c.Root), dir) // the link itself
			}
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.emptyDirectory(dir))
	}
	return errors.Join(errs...)
}

// emptyDirectory empties a directory, but for what is still mounted in it: that may be a share of others.
func (c Cleaner) emptyDirectory(dir string) error {
	found, err := c.mounts()
	if err != nil {
		return err
	}
	points := make([]string, 0, len(found))
	for name := range found {
		points = append(points, c.Root.Path(mountPoint(name)))
	}
	return c.withDir(dir, func(d *durable.Dir) error { return emptyAround(d, points) })
}

// withDir calls do with a directory that is there.
func (c Cleaner) withDir(dir string, do func(*durable.Dir) error) error {
	err := durable.WithDir(string(c.Root), dir, do)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func emptyAround(d *durable.Dir, points []string) error {
	found, err := d.Entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range found {
		file := d.Path(e.Name())
		switch {
		case slices.Contains(points, file):
			errs = append(errs, fmt.Errorf("empty %s: %s is mounted", d.Path(""), e.Name()))
		case slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, file+"/") }):
			errs = append(errs, d.WithDir(e.Name(), func(in *durable.Dir) error { return emptyAround(in, points) }))
		default:
			errs = append(errs, d.RemoveAll(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// firstFiles names one file per directory.
func (c Cleaner) firstFiles(directories []string) (entries, error) {
	found := entries{}
	for _, dir := range directories {
		file := ""
		err := c.withDir(dir, func(d *durable.Dir) (err error) { // an operator may have it on another disk
			file, err = firstFile(d.Path(""))
			return err
		})
		if err != nil {
			return nil, err
		}
		if file != "" {
			found[filepath.Join(dir, file)] = "there"
		}
	}
	return found, nil
}

var errFound = errors.New("found")

// firstFile returns the relative path of a file below dir. Empty directories
// are no files: packages of the distribution make some.
func firstFile(dir string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		deep := errors.Is(err, unix.ENAMETOOLONG)
		if !deep && (err != nil || d.IsDir()) {
			return err
		}
		found, err = filepath.Rel(dir, path)
		if deep {
			found, _, _ = strings.Cut(found, "/")
		}
		return errors.Join(errFound, err)
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

func (c Cleaner) empty(directories []string) error {
	errs := make([]error, 0, len(directories))
	for _, dir := range directories {
		errs = append(errs, c.removeContents(dir))
	}
	return errors.Join(errs...)
}

// removeContents empties a directory, with what is mounted in it: see emptyDirectory.
func (c Cleaner) removeContents(dir string) error {
	return c.withDir(dir, func(d *durable.Dir) error { return emptyAround(d, nil) })
}

// flushIPTables takes the chains of Kubernetes and every rule that names one out
// of the tables, and leaves the others as they are.
func (c Cleaner) flushIPTables(ctx context.Context, save string) error {
	restore := strings.TrimSuffix(save, "save") + "restore"
	if !c.Runner.Has(save) || !c.Runner.Has(restore) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	rules, err := c.Runner.Run(ctx, save)
	if err != nil || !network.NamesChain(string(rules)) {
		return err
	}
	if _, err := c.Runner.RunInput(ctx, []byte(withoutChains(string(rules))), restore); err != nil {
		return &operation.Unverifiable{Err: fmt.Errorf("remove the chains of Kubernetes: %w", err)}
	}
	return nil
}

func withoutChains(rules string) string {
	var kept strings.Builder
	for line := range strings.Lines(rules) {
		if !network.NamesChain(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
