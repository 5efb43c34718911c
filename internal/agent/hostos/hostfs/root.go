package hostfs

import (
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

// ReadFile reads the file that the absolute path names below the root.
func (r Root) ReadFile(path string) ([]byte, error) { return os.ReadFile(r.Path(path)) }

// Space is how many bytes may be written below an absolute path of the host by others than
// root, and how many its file system has; of a path that is not there yet, where it would be
// made.
func (r Root) Space(path string) (free, size int64, err error) {
	for ; path != "/"; path = filepath.Dir(path) {
		if _, err := os.Stat(r.Path(path)); err == nil {
			break
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(r.Path(path), &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, int64(fs.Blocks) * fs.Bsize, nil
}
