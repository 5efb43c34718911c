package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is an open directory, which WithParent, WithTarget and WithDir open. Its methods get names of
// entries, and follow no link. They work in this directory even if somebody renames it, or puts
// another one in its place.
type Dir struct {
	root *os.Root
	path string
	info fs.FileInfo
	// trusted: only root decides what the path leads to; exclusive: and what is in the directory.
	trusted, exclusive bool
}

// IrregularError reports a directory, pipe, device or link where a file is expected.
type IrregularError struct {
	Path string
	Mode fs.FileMode
}

// Error implements error.
func (e *IrregularError) Error() string {
	return fmt.Sprintf("%s is not a regular file: %s", e.Path, e.Mode)
}

// Path returns the path of an entry, without links.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// wrap names the whole path of an entry in an error.
func (d *Dir) wrap(err error, name string) error {
	wrapped := &fs.PathError{Op: "open", Path: d.Path(name), Err: err}
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		wrapped.Op, wrapped.Err = inner.Op, inner.Err
	}
	if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		wrapped.Op, wrapped.Err = inner.Op, inner.Err
	}
	return wrapped
}

// Lstat describes an entry.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, d.wrap(err, name)
	}
	return info, nil
}

// Entries lists the directory, sorted by name.
func (d *Dir) Entries() ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), ".") }

// WithDir calls do with a directory in this one.
func (d *Dir) WithDir(name string, do func(in *Dir) error) error {
	in, err := d.enter(name)
	if err != nil {
		return err
	}
	if in == nil {
		return d.wrap(syscall.ENOTDIR, name)
	}
	defer func() { _ = in.root.Close() }()
	return do(in)
}

// Open opens a regular file for reading, and returns its description. Anything else is an
// *IrregularError: a pipe would wait for ever, and devices act when they are opened. In a directory that
// a user can write to, the file must be one that the owner of the directory can read: who moves or
// links a file there must not find its content in another one.
func (d *Dir) Open(name string) (*os.File, fs.FileInfo, error) {
	f, info, err := d.peek(name)
	if err == nil && !d.exclusive && uidOf(info) != uidOf(d.info) && info.Mode().Perm()&0o004 == 0 {
		err = fmt.Errorf("%s belongs to user %d and not to user %d, the owner of its directory, who cannot read it; change its owner or mode, or remove it", d.Path(name), uidOf(info), uidOf(d.info))
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, err
}

// peek is Open for what no user gets to see.
func (d *Dir) peek(name string) (*os.File, fs.FileInfo, error) {
	info, err := d.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &IrregularError{d.Path(name), info.Mode()}
	}
	if err != nil {
		return nil, nil, err
	}
	return d.open(name, os.O_RDONLY)
}

// open checks what it has opened: somebody may have replaced it since.
func (d *Dir) open(name string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, d.wrap(err, name)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &IrregularError{d.Path(name), info.Mode()}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ReadFile reads a file of at most a number of bytes, as Open opens it.
func (d *Dir) ReadFile(name string, most int64) ([]byte, fs.FileInfo, error) {
	f, info, err := d.Open(name)
	if err != nil {
		return nil, nil, err
	}
	data, err := readAll(f, most)
	return data, info, err
}

// readAll reads and closes a file.
func readAll(f *os.File, most int64) ([]byte, error) {
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Clean(f.Name()), most)
	}
	return data, err
}

// Replace replaces an entry by a file with the given content, permissions, owner and group, which
// it has from the moment at which the name is there. A file that is a mount point is written in place, if
// only root can write to the directory.
func (d *Dir) Replace(name string, data []byte, perm fs.FileMode, uid, gid int) error {
	staged := filepath.Base(Staged(name))
	err := d.stage(staged, perm, uid, gid, contents(data))
	if err == nil {
		err = d.rename(staged, name)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EBUSY) && d.exclusive {
		err = d.overwrite(name, data, perm, uid, gid)
	}
	return errors.Join(err, d.discard(staged))
}

func (d *Dir) stage(staged string, perm fs.FileMode, uid, gid int, fill func(io.Writer) error) error {
	if err := before(Create, d.Path(staged)); err != nil {
		return err
	}
	if err := d.unlink(staged); err != nil {
		return err
	}
	f, err := d.root.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return d.wrap(err, staged)
	}
	return finish(f, perm, uid, gid, fill)
}

// Rewrite changes the content of a file that has several names under all of them, where only root can write to the
// directory; elsewhere, and for a file with one name, it is Replace. A power cut leaves the new content up to some byte, followed by
// the old.
func (d *Dir) Rewrite(name string, data []byte, perm fs.FileMode, uid, gid int) error {
	if info, err := d.root.Lstat(name); err != nil || !info.Mode().IsRegular() || linksOf(info) == 1 || !d.exclusive {
		return d.Replace(name, data, perm, uid, gid)
	}
	if err := before(Create, d.Path(name)); err != nil {
		return err
	}
	return d.unlocked(name, func() error { return d.overwrite(name, data, perm, uid, gid) })
}

func (d *Dir) overwrite(name string, data []byte, perm fs.FileMode, uid, gid int) error {
	f, _, err := d.open(name, os.O_RDWR)
	if err != nil {
		return err
	}
	return finish(f, perm, uid, gid, func(io.Writer) error {
		_, err := f.WriteAt(data, 0)
		return errors.Join(err, f.Truncate(int64(len(data))))
	})
}

// Node makes a pipe or a device, of the kind and number of mknod(2), in place of what is there.
func (d *Dir) Node(name string, kind uint32, device uint64, perm fs.FileMode, uid, gid int) error {
	staged := filepath.Base(Staged(name))
	if err := before(Create, d.Path(staged)); err != nil {
		return err
	}
	if err := d.unlink(staged); err != nil {
		return err
	}
	dir, err := d.root.Open(".")
	if err != nil {
		return d.wrap(err, staged)
	}
	err = errors.Join(mknodat(int(dir.Fd()), staged, kind|unowned, device), dir.Close())
	if err == nil {
		err = errors.Join(d.root.Lchown(staged, ours(uid), ours(gid)), d.root.Chmod(staged, perm))
	}
	if err == nil {
		err = d.rename(staged, name)
	}
	if err != nil {
		return errors.Join(d.wrap(err, name), d.discard(staged))
	}
	return nil
}

// OpenLog opens a file for appending, which only the user of the process can read. It replaces
// anything else that has the name, and any file that others can open.
func (d *Dir) OpenLog(name string) (*os.File, error) {
	for range maxTries {
		info, err := d.root.Lstat(name)
		switch {
		case err == nil && private(info):
			f, opened, err := d.open(name, os.O_WRONLY|os.O_APPEND)
			if err == nil && private(opened) {
				return f, nil
			}
			if err == nil {
				err = f.Close()
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP) {
				return nil, err
			}
			continue
		case err == nil:
			if err := d.Remove(name); err != nil {
				return nil, err
			}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, d.wrap(err, name)
		}
		f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, d.wrap(err, name)
		}
	}
	return nil, d.wrap(syscall.EAGAIN, name)
}

// private says whether nobody but the user of the process can open a file.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && int(stat.Uid) == os.Geteuid() && stat.Nlink == 1 && info.Mode().Perm()&0o077 == 0
}

// SetOwner gives a file or directory another owner, group and permissions. In a directory that a
// user can write to it replaces a file by a copy, and changes no directory: either could be one that
// the user moved there.
func (d *Dir) SetOwner(name string, perm fs.FileMode, uid, gid int) error {
	info, err := d.Lstat(name)
	if err != nil {
		return err
	}
	if d.exclusive {
		err := d.unlocked(name, func() error { return errors.Join(d.root.Lchown(name, ours(uid), ours(gid)), d.root.Chmod(name, perm)) })
		if err != nil {
			return d.wrap(err, name)
		}
		return nil
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is in a directory that user %d can write to, where root gives only files another owner; change owner and mode by hand", d.Path(name), uidOf(d.info))
	}
	data, _, err := d.ReadFile(name, maxCopied)
	if err != nil {
		return err
	}
	return d.Replace(name, data, perm, uid, gid)
}

// SetLinkOwner gives a symbolic link another owner and group, in a directory that only root can write to.
func (d *Dir) SetLinkOwner(name string, uid, gid int) error {
	if !d.exclusive {
		return d.notExclusive(name)
	}
	if err := d.root.Lchown(name, ours(uid), ours(gid)); err != nil {
		return d.wrap(err, name)
	}
	return nil
}

// maxCopied bounds the file that SetOwner replaces, in bytes.
const maxCopied = 32 << 20

// Mkdir makes a directory with the given permissions, owner and group, whatever the umask. It has its
// name from the start, by which SELinux labels it; only root can open one for another user until it is
// given away. One that is there already keeps its own, unless an earlier try was interrupted before that.
func (d *Dir) Mkdir(name string, perm fs.FileMode, uid, gid int) error {
	others := uid != Keep && !isRoot(uid)
	switch info, err := d.root.Lstat(name); {
	case err == nil && !info.IsDir():
		return d.wrap(syscall.ENOTDIR, name)
	case err == nil:
		if others && unfinished(info) {
			if err := d.own(name, perm, uid, gid); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
		return d.sync()
	case !errors.Is(err, fs.ErrNotExist):
		return d.wrap(err, name)
	}
	if err := before(Create, d.Path(name)); err != nil {
		return err
	}
	first := perm.Perm()
	if others {
		first = unowned
	}
	if err := d.root.Mkdir(name, first); err != nil {
		return d.wrap(err, name)
	}
	if err := d.own(name, perm, uid, gid); err != nil {
		return err
	}
	return d.sync()
}

// unowned are the permissions of a directory that is not given away yet.
const unowned = 0o700

// unfinished says whether a directory, if it is empty, may be that of an interrupted Mkdir.
func unfinished(info fs.FileInfo) bool {
	return info.IsDir() && isRoot(uidOf(info)) && info.Mode().Perm() == unowned
}

// own gives away a directory that was just made. It must be empty and root's: a user may have put
// another one in its place.
func (d *Dir) own(name string, perm fs.FileMode, uid, gid int) error {
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return d.wrap(err, name)
	}
	info, err := f.Stat()
	if err == nil {
		if _, empty := f.ReadDir(1); uidOf(info) != os.Geteuid() || !errors.Is(empty, io.EOF) {
			err = d.wrap(fs.ErrPermission, name)
		}
	}
	if uid, gid = ours(uid), ours(gid); err == nil && (uid != Keep || gid != Keep) {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	return errors.Join(err, f.Close())
}

// Link makes an entry a symbolic link to target, in place of a file or a link that is there.
func (d *Dir) Link(target, name string) error {
	staged := filepath.Base(Staged(name))
	if err := before(Create, d.Path(staged)); err != nil {
		return err
	}
	if err := d.unlink(staged); err != nil {
		return err
	}
	if err := d.root.Symlink(target, staged); err != nil {
		return d.wrap(err, staged)
	}
	if err := d.rename(staged, name); err != nil {
		return errors.Join(err, d.discard(staged))
	}
	return nil
}

// Remove removes a file, a link or an empty directory, and what an interrupted Replace or Link
// did not remove. A name that is not there is no error.
func (d *Dir) Remove(name string) error {
	var errs []error
	for _, n := range []string{filepath.Base(Staged(name)), name} {
		if _, err := d.root.Lstat(n); n != name && errors.Is(err, unix.EPERM) {
			continue // a file system that has no hidden names, such as that of eBPF
		}
		if err := before(Delete, d.Path(n)); err != nil {
			return err
		}
		errs = append(errs, d.unlink(n))
	}
	return errors.Join(append(errs, d.sync())...)
}

// RemoveAll removes an entry with everything in it.
func (d *Dir) RemoveAll(name string) error {
	if err := before(DeleteAll, d.Path(name)); err != nil {
		return err
	}
	if err := d.unlocked(name, func() error { return d.root.RemoveAll(name) }); err != nil {
		return d.wrap(err, name)
	}
	return d.sync()
}

func (d *Dir) discard(name string) error {
	if err := before(Delete, d.Path(name)); err != nil {
		return err
	}
	return d.unlink(name)
}

func (d *Dir) unlink(name string) error {
	if err := d.unlocked(name, func() error { return d.root.Remove(name) }); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return d.wrap(err, name)
	}
	return nil
}

func (d *Dir) rename(from, to string) error {
	if err := before(Move, d.Path(to)); err != nil {
		return err
	}
	if err := d.unlocked(to, func() error { return d.root.Rename(from, to) }); err != nil {
		return d.wrap(err, to)
	}
	return d.sync()
}

func (d *Dir) sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // a file system of the kernel's, without a disk
	}
	return errors.Join(err, f.Close())
}
