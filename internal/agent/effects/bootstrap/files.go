package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
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
		resolved = append(resolved, "/"+strings.TrimPrefix(strings.TrimPrefix(a.target(p), string(a.Root)), "/"))
	}
	return a.Keep(resolved, true, progress)
}

func (a Applier) writeFile(f cloudconfig.File) error {
	path := a.Root.Path(f.Path)
	uid, gid, err := owner(a.Root, f.User, f.Group)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return reset.ReplaceFile(a.target(f.Path), f.Content, f.Mode, uid, gid)
}

// target is where a path leads to.
func (a Applier) target(path string) string {
	path = a.Root.Path(path)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// appended returns the content of a file with that of the entry i at its end. An earlier try has
// appended it already when the file ends with all that the entries append to it, up to this one
// or a later one.
func (a Applier) appended(files []cloudconfig.File, i int) ([]byte, error) {
	target := a.target(files[i].Path)
	old, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []byte
	for j, f := range files {
		switch {
		case a.target(f.Path) != target:
			continue
		case !f.Append: // this try has written the whole file, or will
			return append(old, files[i].Content...), nil
		}
		all = append(all, f.Content...)
		if j >= i && bytes.HasSuffix(old, all) {
			return old, nil
		}
	}
	return append(old, files[i].Content...), nil
}
