package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/durable"
)

// writeFiles writes the files of one of the two moments, after recording the
// paths that do not exist yet.
func (a Applier) writeFiles(files []cloudconfig.File, deferred bool, progress operation.Progress) error {
	var paths []string
	for _, f := range files {
		if f.Defer == deferred {
			paths = append(paths, f.Path)
		}
	}
	if err := a.recordNew(paths, progress); err != nil {
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

// StagedSuffix ends the name under which a file is prepared beside its path.
const StagedSuffix = ".slipway-new"

// recordNew adds the paths that do not exist to the list a reset removes; of
// the others only what an interrupted write may leave.
func (a Applier) recordNew(paths []string, progress operation.Progress) error {
	return progress.Update(func(s *journal.State) {
		for _, p := range paths {
			_, err := os.Lstat(a.Root.Path(p))
			if err == nil {
				p += StagedSuffix
			} else if !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !slices.Contains(s.Files, p) {
				s.Files = append(s.Files, p)
			}
		}
	})
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
	return replace(a.target(f.Path), f.Content, f.Mode, uid, gid)
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

// replace writes beside the file and renames, so that the owner and the mode
// hold from the first moment. A file that is a mount point is written in place.
func replace(path string, content []byte, mode fs.FileMode, uid, gid int) error {
	staged := path + StagedSuffix
	if err := durable.Write(staged, content, 0o600); err != nil {
		return err
	}
	err := errors.Join(os.Chown(staged, uid, gid), os.Chmod(staged, mode))
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err == nil {
		return durable.SyncDir(filepath.Dir(path))
	}
	if errors.Is(err, syscall.EBUSY) {
		err = errors.Join(os.WriteFile(path, content, mode), os.Chown(path, uid, gid), os.Chmod(path, mode))
	}
	return errors.Join(err, os.Remove(staged))
}
