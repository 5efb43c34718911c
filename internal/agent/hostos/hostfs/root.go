package hostfs

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root is the directory that stands for "/" of the host. Empty means "/".
type Root string

// At returns the root that an operator names, in any spelling: "/" is the host itself, and a slash
// at the end means nothing.
func At(dir string) Root {
	if dir == "" || filepath.Clean(dir) == "/" {
		return ""
	}
	return Root(filepath.Clean(dir))
}

// Path returns where the absolute path of the host lies below the root.
func (r Root) Path(path string) string {
	if r == "" {
		return path
	}
	return filepath.Join(string(r), path)
}

// ReadFile reads the regular file that the absolute path names below the root.
func (r Root) ReadFile(path string) ([]byte, error) { return ReadFile(r.Path(path)) }

// ReadFile is os.ReadFile for regular files alone: a pipe, which a tenant may have put in the place of
// a file, would wait for a writer for ever, and devices act when they are opened.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// Open is os.Open for regular files alone.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errIrregular}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.Join(cmp.Or(err, errIrregular), f.Close())}
	}
	return f, nil
}

var errIrregular = errors.New("not a regular file")

// Space is how many bytes may be written below an absolute path of the host by others than
// root, and how many its file system has; of a path that is not there yet, where it would be
// made.
func (r Root) Space(path string) (free, size int64, err error) {
	for ; path != "/"; path = filepath.Dir(path) {
		if _, err := os.Stat(r.Path(path)); err == nil {
			break
		}
	}
	var is unix.Statfs_t
	if err := unix.Statfs(r.Path(path), &is); err != nil {
		return 0, 0, err
	}
	return int64(is.Bavail) * is.Bsize, int64(is.Blocks) * is.Bsize, nil
}
