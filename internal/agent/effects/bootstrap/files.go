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
	"github.com/slipway-dev/slipway/internal/atomicfile"
)

// writeFiles writes the files of one of the two moments, after recording the
// paths that do not exist yet.
func (a Applier) writeFiles(files []cloudconfig.File, deferred bool, progress operation.Progress) error {
	var now []cloudconfig.File
	var paths []string
	for _, f := range files {
		if f.Defer == deferred {
			now = append(now, f)
			paths = append(paths, f.Path)
		}
	}
	if err := a.recordNew(paths, progress); err != nil {
		return err
	}
	for _, f := range now {
		if err := a.writeFile(f); err != nil {
			return fmt.Errorf("write_files %s: %w", f.Path, err)
		}
	}
	return nil
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
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	content := f.Content
	if f.Append {
		if content, err = appended(path, f.Content); err != nil {
			return err
		}
	}
	return replace(path, content, f.Mode, uid, gid)
}

// appended returns the old content with the new at its end. What an interrupted
// try has appended already is not appended again.
func appended(path string, addition []byte) ([]byte, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if bytes.HasSuffix(old, addition) {
		return old, nil
	}
	return append(old, addition...), nil
}

// replace writes beside the file and renames, so that the owner and the mode
// hold from the first moment. A file that is a mount point is written in place.
func replace(path string, content []byte, mode fs.FileMode, uid, gid int) error {
	staged := path + StagedSuffix
	if err := atomicfile.Write(staged, content, 0o600); err != nil {
		return err
	}
	err := errors.Join(os.Chown(staged, uid, gid), os.Chmod(staged, mode))
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err == nil {
		return atomicfile.SyncDir(filepath.Dir(path))
	}
	if errors.Is(err, syscall.EBUSY) {
		err = errors.Join(os.WriteFile(path, content, mode), os.Chown(path, uid, gid), os.Chmod(path, mode))
	}
	return errors.Join(err, os.Remove(staged))
}
