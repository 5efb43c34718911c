package hostfs

import "path/filepath"

// Root is the directory that stands for "/" of the host. Empty means "/".
type Root string

// Path returns where the absolute path of the host lies below the root.
func (r Root) Path(path string) string {
	if r == "" {
		return path
	}
	return filepath.Join(string(r), path)
}
