package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// inside is a directory whose content a host writes: its root while it is built, or its disk. Paths in it are what they are to
// the host, so a link in it, even an absolute one, leads to nothing of the machine.
type inside string

// open opens what is at a path, without access to its content.
func (in inside) open(path string, resolve uint64) (*os.File, error) {
	top, err := os.OpenFile(string(in), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve}
	for {
		fd, err := unix.Openat2(int(top.Fd()), filepath.Join(".", path), how)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR): // something is renamed meanwhile
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "openat2", Path: filepath.Join(string(in), path), Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// Open opens a regular file on the disk of the host in dir for reading, by its path on the host. What a link there leads to is on
// that disk, too, and whoever put a pipe or a device there keeps nobody waiting. The init of a host has its disk otherwise.
func Open(dir, path string) (*os.File, error) {
	found, err := inside(dir).open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	info, err := found.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: filepath.Join(dir, path), Err: errIrregular}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", found.Fd()))
}

var errIrregular = errors.New("not a regular file")

// readFile reads what Open opens, up to a number of bytes.
func (in inside) readFile(path string, most int64) ([]byte, error) {
	f, err := Open(string(in), path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	return data, errors.Join(err, f.Close())
}

// remove removes a file or a link. What is not there is no error.
func (in inside) remove(path string) error {
	above, err := in.open(filepath.Dir(path), 0)
	if err == nil {
		err = unix.Unlinkat(int(above.Fd()), filepath.Base(path), 0)
		_ = above.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "unlinkat", Path: filepath.Join(string(in), path), Err: err}
	}
	return nil
}

// at calls do with a path of the process that leads to what is at path now, whatever becomes of its name.
func (in inside) at(path string, do func(target string) error) error {
	f, err := in.open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return do(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// parent calls do with the open directory of a path, which it makes, and the name in it.
func (in inside) parent(path string, do func(dir int, name string) error) error {
	if err := in.mkdirAll(filepath.Dir(path), 0); err != nil {
		return err
	}
	f, err := in.open(filepath.Dir(path), 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return do(int(f.Fd()), filepath.Base(path))
}

// mkdirAll makes a directory, with those above it.
func (in inside) mkdirAll(path string, resolve uint64) error {
	path = filepath.Join("/", path)
	if path == "/" {
		return nil
	}
	f, err := in.open(path, resolve)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := in.mkdirAll(filepath.Dir(path), resolve); err != nil {
		return err
	}
	above, err := in.open(filepath.Dir(path), resolve)
	if err != nil {
		return err
	}
	defer func() { _ = above.Close() }()
	if err := unix.Mkdirat(int(above.Fd()), filepath.Base(path), 0o755); err != nil {
		return &fs.PathError{Op: "mkdirat", Path: filepath.Join(string(in), path), Err: err}
	}
	return nil
}

// touch makes an empty file, unless there is one.
func (in inside) touch(path string) error {
	return in.parent(path, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "create", Path: filepath.Join(string(in), path), Err: err}
		}
		return unix.Close(fd)
	})
}

// link makes a symbolic link.
func (in inside) link(target, path string) error {
	return in.parent(path, func(dir int, name string) error {
		if err := unix.Symlinkat(target, dir, name); err != nil {
			return &os.LinkError{Op: "symlink", Old: target, New: filepath.Join(string(in), path), Err: err}
		}
		return nil
	})
}
