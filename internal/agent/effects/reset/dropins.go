package reset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
)

// dropIn is a directory of programs that run as root, or of what says which do: pods put
// them there, and the next node of the host would run them.
type dropIn struct {
	dir string
	// added says that what came goes, changed that what was there must be what it was.
	added, changed bool
}

// dropIns by who looks there.
var dropIns = []dropIn{
	// The kubelet runs FlexVolume drivers once it finds them.
	{dir: pluginDirectories[len(pluginDirectories)-1], added: true, changed: true},
	// containerd runs plugins of its Node Resource Interface when it starts.
	{dir: "/opt/nri/plugins", added: true, changed: true},
	{dir: "/etc/nri/conf.d", added: true, changed: true},
	// It runs network plugins for each pod. Those of a cluster replace the host's by their
	// own build of them.
	{dir: "/opt/cni/bin", added: true},
	// What is added there goes by name: see newCNIConfigs.
	{dir: cniConfigs, changed: true},
}

// captureDropIns says what the directories hold, as Baseline.DropIns has it.
func (c Cleaner) captureDropIns() (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, d := range dropIns {
		entries, err := c.readDropIn(d.dir, nil)
		if errors.Is(err, errElsewhere) {
			continue // the operator's arrangement: what is there is not judged
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", d.dir, err)
		}
		all[d.dir] = entries
	}
	return all, nil
}

// errElsewhere is a directory on whose path there is a link: to empty what that leads to
// could be to empty anything.
var errElsewhere = errors.New("it is reached by a symbolic link")

// readDropIn says what each entry below a directory is; none of a directory that is not
// there. Of those that differ from before already it need not read the content.
func (c Cleaner) readDropIn(dir string, before map[string]string) (map[string]string, error) {
	root, err := c.openDropIn(dir)
	if root == nil {
		return map[string]string{}, err
	}
	defer root.Close()
	found := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		found[name], err = describe(root, name, entry, before)
		return err
	})
	return found, err
}

// openDropIn returns nil for a directory that is not there.
func (c Cleaner) openDropIn(dir string) (*os.Root, error) {
	at, err := filepath.EvalSymlinks(c.Root.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	top, err := filepath.EvalSymlinks(c.Root.Path("/"))
	if err != nil {
		return nil, err
	}
	if at != filepath.Join(top, dir) {
		return nil, errElsewhere
	}
	return os.OpenRoot(at)
}

// describe tells two entries apart.
func describe(root *os.Root, name string, entry fs.DirEntry, before map[string]string) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		return "link to " + target, err
	case !info.Mode().IsRegular():
		return info.Mode().Type().String(), nil
	}
	size := fmt.Sprintf("%d bytes ", info.Size())
	if was, known := before[name]; before != nil && (!known || len(was) != len(size)+sha256.Size*2 || was[:len(size)] != size) {
		return size, nil
	}
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, io.LimitReader(file, info.Size()))
	return size + hex.EncodeToString(sum.Sum(nil)), err
}

// strangers are the entries of a directory that came or changed since the baseline, sorted.
func (c Cleaner) strangers(d dropIn, baseline *journal.Baseline) (added, changed []string, _ error) {
	if baseline == nil || baseline.DropIns[d.dir] == nil {
		return nil, nil, nil // recorded by an agent that did not look, or elsewhere then
	}
	before := baseline.DropIns[d.dir]
	now, err := c.readDropIn(d.dir, before)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch was, known := before[name]; {
		case !known && d.added:
			added = append(added, name)
		case known && d.changed && was != now[name]:
			changed = append(changed, name)
		}
	}
	return added, changed, nil
}

// removeDropIns takes away what came; what changed, nobody can give back.
func (c Cleaner) removeDropIns(baseline *journal.Baseline) error {
	var errs []error
	for _, d := range dropIns {
		added, _, err := c.strangers(d, baseline)
		if err == nil && len(added) > 0 {
			err = c.removeAdded(d.dir, added)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.dir, err))
		}
	}
	return errors.Join(errs...)
}

func (c Cleaner) removeAdded(dir string, added []string) error {
	root, err := c.openDropIn(dir)
	if root == nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, name := range slices.Backward(added) { // what is in a directory before it
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leftDropIns names one that came and one that changed of each directory.
func (c Cleaner) leftDropIns(baseline *journal.Baseline) ([]string, error) {
	var left []string
	var errs []error
	for _, d := range dropIns {
		added, changed, err := c.strangers(d, baseline)
		if errors.Is(err, errElsewhere) {
			left, err = append(left, "symbolic link on the way to "+d.dir), nil
		}
		if len(added) > 0 {
			left = append(left, "file "+filepath.Join(d.dir, added[0]))
		}
		if len(changed) > 0 {
			left = append(left, "file "+filepath.Join(d.dir, changed[0])+", which is not what it was before")
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}
