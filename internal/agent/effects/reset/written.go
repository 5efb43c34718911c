package reset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/durable"
)

// writtenPaths are the files that the bootstrap made.
func writtenPaths(state journal.State) []string {
	var paths []string
	for _, name := range state.Files {
		paths = append(paths, name, durable.Staged(name))
	}
	return paths
}

func keptPaths(state journal.State) []string {
	paths := make([]string, 0, len(state.Kept))
	for _, k := range state.Kept {
		paths = append(paths, k.Path)
	}
	return paths
}

// Keep records what files are before the agent changes them for a bootstrap. One that is not there
// goes with the reset, with the directories that are made for it; the content of others is kept in
// the agent's store. withContent false keeps only mode and owner: others may write to the file
// meanwhile.
func (c Cleaner) Keep(paths []string, withContent bool, progress operation.Progress) error {
	for _, name := range paths {
		state := progress.State()
		if slices.Contains(writtenPaths(state), name) || slices.Contains(keptPaths(state), name) {
			continue
		}
		info, err := os.Lstat(c.Root.Path(name))
		if errors.Is(err, fs.ErrNotExist) {
			err = progress.Update(func(s *journal.State) {
				s.Files = append(s.Files, name)
				for dir := path.Dir(name); dir != "/" && !slices.Contains(s.Directories, dir); dir = path.Dir(dir) {
					if _, err := os.Lstat(c.Root.Path(dir)); err == nil {
						break
					}
					s.Directories = append(s.Directories, dir)
				}
			})
			if err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, syscall.ENOTDIR) {
			continue // it cannot be written either
		}
		if err != nil {
			return err
		}
		kept, err := c.copyOf(name, info, withContent)
		if err != nil {
			return fmt.Errorf("keep %s as it is, to restore it with the reset: %w", name, err)
		}
		if err := progress.Update(func(s *journal.State) {
			s.Kept = append(s.Kept, kept)
			s.Files = append(s.Files, durable.Staged(name))
		}); err != nil {
			return err
		}
	}
	return nil
}

// copyOf puts the content of a file into the store.
func (c Cleaner) copyOf(name string, info fs.FileInfo, withContent bool) (journal.KeptFile, error) {
	kept := journal.KeptFile{Path: name}
	var err error
	if mode := info.Mode(); withContent && !mode.IsRegular() && mode&fs.ModeSymlink == 0 {
		return kept, &durable.IrregularError{Path: name, Mode: mode}
	}
	if kept.Before, err = describeAs(c.Root.Path(name), fs.FileInfoToDirEntry(info), keptAs(withContent)); err != nil || !info.Mode().IsRegular() || !withContent {
		kept.Before = text(kept.Before)
		return kept, err
	}
	if err := os.MkdirAll(c.Records, 0o700); err != nil {
		return kept, err
	}
	sum := sha256.Sum256([]byte(name))
	kept.Copy = "kept-" + hex.EncodeToString(sum[:8])
	return kept, durable.WithParent(string(c.Root), name, func(d *durable.Dir, file string) error {
		in, opened, err := d.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		if !os.SameFile(info, opened) || opened.Size() > maxKept {
			return fmt.Errorf("it was replaced, or has more than %d bytes", maxKept)
		}
		return durable.Stream(filepath.Join(c.Records, kept.Copy), 0o600, func(w io.Writer) error {
			_, err := io.Copy(w, io.LimitReader(in, maxKept))
			return err
		})
	})
}

// maxKept bounds a file that is kept, in bytes: who owns its directory decides how large it is.
const maxKept = 256 << 20

// RecordMade records what the bootstrap changed in the places, and what became of the files that it
// replaced: what somebody changes later is not taken for its doing.
func (c Cleaner) RecordMade(ctx context.Context, progress operation.Progress) error {
	state := progress.State()
	if state.Made != nil || state.Residue == journal.ResidueNone && state.Baseline == nil {
		return nil
	}
	rec, err := c.open(state.Baseline)
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		return nil
	}
	if err != nil {
		return err
	}
	made := map[string]string{}
	if rec != nil {
		all, err := c.changes(ctx, c.fileTrace(ctx, journal.State{Files: state.Files, Kept: state.Kept, Programs: state.Programs}, rec), rec)
		if err != nil {
			return err
		}
		for _, ch := range all[:min(len(all), maxMade)] {
			made[text(ch.name)] = text(ch.now)
		}
	}
	name, err := c.Hostname()
	if err != nil {
		return err
	}
	after := map[string]string{}
	for _, k := range state.Kept {
		if after[k.Path], err = c.now(k); err != nil {
			return err
		}
	}
	return progress.Update(func(s *journal.State) {
		s.Made = made
		if was := rec.of(trace{kind: kindHostname})[runningSystem]; was != "" && was != name {
			s.Hostname = &journal.Renamed{Before: was, After: name} // by a command, too
		}
		for i, k := range s.Kept {
			s.Kept[i].After = after[k.Path]
		}
	})
}

// madeOf is what a bootstrap made of a path.
func madeOf(state journal.State, name string) (string, bool) {
	is, known := state.Made[text(name)]
	return untext(is), known
}

// maxMade bounds what the journal has of the changes of a bootstrap. More are named.
const maxMade = 512

// keptAs is how a kept file is described: with all of its content, or without.
func keptAs(withContent bool) place { return place{added: !withContent, whole: withContent} }

// now describes a kept file as it is; "" when it is gone.
func (c Cleaner) now(k journal.KeptFile) (string, error) {
	info, err := os.Lstat(c.Root.Path(k.Path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	is, err := describeAs(c.Root.Path(k.Path), fs.FileInfoToDirEntry(info), keptAs(k.Copy != ""))
	return text(is), err
}

// writtenTrace is that of what the agent itself wrote for the bootstrap. What it finds has to go, or
// to be restored. Files in directories of Kubernetes have a trace of their own.
func (c Cleaner) writtenTrace(state journal.State) trace {
	const replaced = "replaced"
	return trace{
		kind: "written", word: "file", always: true,
		look: func(context.Context) (entries, error) {
			found := entries{}
			for _, name := range writtenPaths(state) {
				_, err := os.Lstat(c.Root.Path(name))
				below := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
				switch {
				case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), slices.ContainsFunc(directories, below):
				case err != nil:
					return nil, fmt.Errorf("look for a file of the bootstrap: %w", err)
				default:
					found[name] = "made"
				}
			}
			for _, k := range state.Kept {
				now, err := c.now(k)
				if err != nil {
					return nil, fmt.Errorf("look for a file of the bootstrap: %w", err)
				}
				if !sameFile(k.Before, now) && !slices.ContainsFunc(directories, func(dir string) bool { return strings.HasPrefix(k.Path, dir+"/") }) {
					found[k.Path] = replaced
				}
			}
			return found, nil
		},
		say: func(ch change) string {
			if ch.now == replaced {
				return "file " + ch.name + ", which is not what it was before"
			}
			return "file " + ch.name
		},
		remove: func(ctx context.Context, _ []string) error { return c.takeBack(ctx, state) },
	}
}

// takeBack removes what the bootstrap made, and restores what it replaced. A file that was changed
// again since is somebody else's, and named.
func (c Cleaner) takeBack(ctx context.Context, state journal.State) error {
	var errs []error
	changed := entries{}
	for _, name := range writtenPaths(state) {
		c.stopUnit(ctx, name)
		if _, err := os.Lstat(c.Root.Path(name)); err == nil {
			err := durable.RemoveIn(string(c.Root), name)
			if err == nil {
				changed[name] = "made"
			}
			errs = append(errs, err)
		}
	}
	for _, k := range state.Kept {
		now, err := c.now(k)
		if err != nil || sameFile(k.Before, now) {
			errs = append(errs, err)
			continue
		}
		if !sameFile(k.After, now) && state.Made != nil {
			errs = append(errs, fmt.Errorf("%s was changed again since the bootstrap; what it was before is in %s", k.Path, filepath.Join(c.Records, k.Copy)))
			continue
		}
		var content []byte
		if k.Copy != "" {
			if content, err = os.ReadFile(filepath.Join(c.Records, k.Copy)); err != nil {
				errs = append(errs, err)
				continue
			}
			if content == nil {
				content = []byte{}
			}
		}
		errs = append(errs, c.restoreFile(k.Path, untext(k.Before), content))
		changed[k.Path] = k.Before
	}
	c.removeDirectories(state)
	c.restartReaders(ctx, changed)
	return errors.Join(errs...)
}

// removeDirectories removes those that the bootstrap made and nobody has anything in.
func (c Cleaner) removeDirectories(state journal.State) {
	for _, dir := range slices.Backward(slices.SortedFunc(slices.Values(state.Directories), strings.Compare)) {
		_ = durable.RemoveIn(string(c.Root), dir)
	}
}

func keys(m entries) iter.Seq[string] { return maps.Keys(m) }
