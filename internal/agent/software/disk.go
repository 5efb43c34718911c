package software

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// disk changes the host below a root, until the context ends. Every method may be called again
// after any part of it was done; what it returns from is on the disk.
type disk struct {
	root hostfs.Root
	ctx  context.Context //nolint:containedctx // disk lives as long as one change of the host
}

func (d disk) makeDirectory(path string, mode os.FileMode) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return durable.Mkdir(d.root.Path(path), mode)
}

func (d disk) writeFile(path string, content []byte, mode os.FileMode) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return durable.Replace(d.root.Path(path), content, mode, durable.Keep, durable.Keep)
}

func (d disk) link(path, target string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return durable.Link(target, d.root.Path(path))
}

// unpack makes a component appear at once, whole and verified, or not at all.
func (d disk) unpack(b *hostbundle.Bundle, c hostbundle.Component) error {
	path := d.root.Path(storePath(c))
	staged := durable.Staged(path)
	if err := durable.RemoveAll(staged); err != nil {
		return err
	}
	if err := durable.Mkdir(staged, 0o755); err != nil {
		return err
	}
	dirs := map[string]bool{staged: true}
	err := b.Unpack(c, func(f hostbundle.File, content io.Reader) error {
		to := filepath.Join(staged, f.Path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		for dir := filepath.Dir(to); dir != staged; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
		return durable.Stream(to, os.FileMode(f.Mode), func(w io.Writer) error {
			_, err := io.Copy(w, untilDone{d.ctx, content})
			return err
		})
	})
	if err != nil {
		// Nothing may use it. What cannot be removed now the next try removes.
		return errors.Join(err, durable.RemoveAll(staged))
	}
	for dir := range dirs {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	// one that is damaged
	if err := durable.RemoveAll(path); err != nil {
		return err
	}
	return durable.Rename(staged, path)
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // as in disk
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// remove takes a file or a link away, and what a torn write of it left.
func (d disk) remove(path string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return durable.Remove(d.root.Path(path))
}

// removeComponent gives it another name first: what is half removed is not found in the
// store.
func (d disk) removeComponent(path string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	path = d.root.Path(path)
	staged := durable.Staged(path)
	if err := durable.RemoveAll(staged); err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := durable.Rename(path, staged); err != nil {
		return err
	}
	return durable.RemoveAll(staged)
}

func (d disk) removeAll(path string) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	return durable.RemoveAll(d.root.Path(path))
}

// removeEmpty reports whether the directory is gone.
func (d disk) removeEmpty(path string) (bool, error) {
	if err := d.ctx.Err(); err != nil {
		return false, err
	}
	name := d.root.Path(path)
	if info, err := os.Lstat(name); err == nil && !info.IsDir() {
		return false, &fs.PathError{Op: "rmdir", Path: path, Err: syscall.ENOTDIR}
	}
	err := durable.Remove(name)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EROFS) {
		return false, nil
	}
	return err == nil, err
}
