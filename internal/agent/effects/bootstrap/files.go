package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/durable"
)

// writeFiles writes the files of one of the two moments, after recording what
// is at their paths.
func (a Applier) writeFiles(files []cloudconfig.File, deferred bool, progress operation.Progress) error {
	var paths []string
	for _, f := range files {
		if f.Defer == deferred {
			paths = append(paths, f.Path)
		}
	}
	if err := a.keep(paths, progress); err != nil {
		return err
	}
	files = inOrder(files)
	for i, f := range files {
		if f.Defer != deferred {
			continue
		}
		var err error
		if f.Append {
			f.Content, err = a.appended(files, i)
		}
		if err == nil {
			err = a.writeFile(f)
		}
		if err != nil {
			return fmt.Errorf("write_files %s: %w", f.Path, err)
		}
	}
	return nil
}

// inOrder returns the files in the order in which they are written.
func inOrder(files []cloudconfig.File) []cloudconfig.File {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(f, g cloudconfig.File) int {
		switch {
		case f.Defer == g.Defer:
			return 0
		case g.Defer:
			return -1
		}
		return 1
	})
	return files
}

// keep records what is at the paths, and where links lead that are there.
func (a Applier) keep(paths []string, progress operation.Progress) error {
	resolved := make([]string, 0, len(paths))
	for _, p := range paths {
		target, err := a.target(p)
		if err != nil {
			return err
		}
		resolved = append(resolved, "/"+strings.TrimPrefix(strings.TrimPrefix(target, string(a.Root)), "/"))
	}
	return a.Keep(resolved, true, progress)
}

// writeFile writes below directories of users, too; see durable.WithParent.
func (a Applier) writeFile(f cloudconfig.File) error {
	uid, gid, err := owner(a.Root, f.User, f.Group)
	if err != nil {
		return err
	}
	if err := durable.MakeParents(string(a.Root), f.Path, 0o755, 0, 0); err != nil {
		return err
	}
	return durable.WithTarget(string(a.Root), f.Path, func(d *durable.Dir, name string) error {
		return d.Rewrite(name, f.Content, f.Mode, uid, gid)
	})
}

// target is where a path leads to.
func (a Applier) target(path string) (target string, err error) {
	err = durable.WithTarget(string(a.Root), path, func(d *durable.Dir, name string) error {
		target = d.Path(name)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return a.Root.Path(path), nil // its directory is not there yet
	}
	return target, err
}

// maxAppended bounds a file that something is appended to, in bytes.
const maxAppended = 256 << 20

// appended returns the content of a file with that of the entry i at its end. An earlier try has
// appended it already when the file ends with all that the entries append to it, up to this one
// or a later one.
func (a Applier) appended(files []cloudconfig.File, i int) ([]byte, error) {
	target, err := a.target(files[i].Path)
	if err != nil {
		return nil, err
	}
	var old []byte
	err = durable.WithTarget(string(a.Root), files[i].Path, func(d *durable.Dir, name string) (err error) {
		old, _, err = d.ReadFile(name, maxAppended)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []byte
	for j, f := range files {
		if other, err := a.target(f.Path); err != nil || other != target {
			continue
		}
		if !f.Append { // this try has written the whole file, or will
			return append(old, files[i].Content...), nil
		}
		all = append(all, f.Content...)
		if j >= i && bytes.HasSuffix(old, all) {
			return old, nil
		}
	}
	return append(old, files[i].Content...), nil
}
