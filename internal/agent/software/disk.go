package software

import (
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

// disk changes the host. Every method may be called again after any part of it was
// done; what it returns from is on the disk.
type disk struct {
	root hostfs.Root
	// before is asked before each system call that changes something. An error stops the
	// work there.
	before func(effect, path string) error
}

// temporary is where a file or a link is made before it takes the place of the path. The
// name is always the same, so that the next try, or the removal, finds it.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), ".slipway-"+filepath.Base(path))
}

func (d disk) makeDirectory(path string, mode os.FileMode) error {
	if err := d.before("mkdir", path); err != nil {
		return err
	}
	path = d.root.Path(path)
	err := os.Mkdir(path, mode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		// whatever the umask is
		err = os.Chmod(path, mode)
	} else {
		err = nil
	}
	return errors.Join(err, durable.SyncDir(filepath.Dir(path)))
}

// writeFile replaces a file whole.
func (d disk) writeFile(path string, content []byte, mode os.FileMode) error {
	tmp := temporary(path)
	if err := d.fill(tmp, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}); err != nil {
		return err
	}
	return d.rename(tmp, path)
}

// fill writes a new file and waits until it is on the disk.
func (d disk) fill(path string, mode os.FileMode, write func(io.Writer) error) error {
	if err := d.before("create", path); err != nil {
		return err
	}
	name := d.root.Path(path)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = write(&stream{File: f, before: func() error { return d.before("write", path) }})
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	return errors.Join(err, f.Close())
}

// stream asks before each write, half of which is done already: a power cut tears it.
type stream struct {
	*os.File
	before func() error
}

func (s *stream) Write(p []byte) (int, error) {
	half, err := s.File.Write(p[:len(p)/2])
	if err != nil {
		return half, err
	}
	if err := s.before(); err != nil {
		return half, err
	}
	rest, err := s.File.Write(p[half:])
	return half + rest, err
}

// ReadFrom would have the kernel copy past Write.
func (s *stream) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{s}, r)
}

func (d disk) rename(from, to string) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	if err := os.Rename(d.root.Path(from), d.root.Path(to)); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(d.root.Path(to)))
}

func (d disk) link(path, target string) error {
	tmp := temporary(path)
	if err := d.before("symlink", tmp); err != nil {
		return err
	}
	if err := os.Remove(d.root.Path(tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, d.root.Path(tmp)); err != nil {
		return err
	}
	return d.rename(tmp, path)
}

// unpack makes a component appear at once, whole and verified, or not at all.
func (d disk) unpack(b *hostbundle.Bundle, c hostbundle.Component) error {
	path := storePath(c)
	tmp := temporary(path)
	if err := d.removeAll(tmp); err != nil {
		return err
	}
	if err := d.makeDirectory(tmp, 0o755); err != nil {
		return err
	}
	dirs := map[string]bool{tmp: true}
	err := b.Unpack(c, func(f hostbundle.File, content io.Reader) error {
		to := filepath.Join(tmp, f.Path)
		if err := os.MkdirAll(d.root.Path(filepath.Dir(to)), 0o755); err != nil {
			return err
		}
		for dir := filepath.Dir(to); dir != tmp; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
		return d.fill(to, os.FileMode(f.Mode), func(w io.Writer) error {
			_, err := io.Copy(w, content)
			return err
		})
	})
	if err != nil {
		// Nothing may use it. What cannot be removed now the next try removes.
		return errors.Join(err, d.removeAll(tmp))
	}
	for dir := range dirs {
		if err := durable.SyncDir(d.root.Path(dir)); err != nil {
			return err
		}
	}
	// one that is damaged
	if err := d.removeAll(path); err != nil {
		return err
	}
	return d.rename(tmp, path)
}

// remove takes a file or a link away, and what a torn write of it left.
func (d disk) remove(path string) error {
	for _, p := range []string{temporary(path), path} {
		if err := d.before("remove", p); err != nil {
			return err
		}
		if err := os.Remove(d.root.Path(p)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	return d.syncParent(path)
}

// removeComponent gives it another name first: what is half removed is not found in the
// store.
func (d disk) removeComponent(path string) error {
	tmp := temporary(path)
	if err := d.removeAll(tmp); err != nil {
		return err
	}
	if _, err := os.Lstat(d.root.Path(path)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.rename(path, tmp); err != nil {
		return err
	}
	return d.removeAll(tmp)
}

func (d disk) removeAll(path string) error {
	root, err := os.OpenRoot(d.root.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if err := d.before("remove", filepath.Join(path, name)); err != nil {
			return err
		}
		return root.Remove(name)
	})
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	if err := d.before("remove all of", path); err != nil {
		return err
	}
	if err := os.RemoveAll(d.root.Path(path)); err != nil {
		return err
	}
	return d.syncParent(path)
}

// removeEmpty reports whether the directory is gone.
func (d disk) removeEmpty(path string) (bool, error) {
	if err := d.before("rmdir", path); err != nil {
		return false, err
	}
	err := syscall.Rmdir(d.root.Path(path))
	switch {
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EROFS):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return true, d.syncParent(path)
}

// syncParent has nothing to do where the parent is gone, too.
func (d disk) syncParent(path string) error {
	err := durable.SyncDir(filepath.Dir(d.root.Path(path)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
