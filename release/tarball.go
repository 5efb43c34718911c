package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// entry is a file, link or directory of an archive or a package.
type entry struct {
	// name is its place, with slashes.
	name string
	// from is the file that has its content; of a link, what it points to.
	from string
	mode fs.FileMode
}

// below are the entries in another directory.
func below(dir string, entries []entry) []entry {
	moved := make([]entry, 0, len(entries))
	for _, e := range entries {
		e.name = path.Join(dir, e.name)
		moved = append(moved, e)
	}
	return moved
}

// treeOf are the entries of a directory, itself first, in the order of their names.
func treeOf(dir, name string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		e := entry{name: path.Join(name, filepath.ToSlash(relative)), from: file, mode: info.Mode()}
		if e.mode.Type() == fs.ModeSymlink {
			if e.from, err = os.Readlink(file); err != nil {
				return err
			}
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// writeTarball writes a gzipped tar archive, whose files belong to root and have the time of the
// release, and returns its SHA-256.
func (r *release) writeTarball(to string, entries []entry) (digest string, err error) {
	f, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	sum := sha256.New()
	compressed := gzip.NewWriter(io.MultiWriter(f, sum))
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		if err := writeEntry(w, e, r.time); err != nil {
			return "", fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := compressed.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func writeEntry(w *tar.Writer, e entry, modified time.Time) error {
	header := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: modified}
	switch e.mode.Type() {
	case fs.ModeDir:
		header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
		return w.WriteHeader(header)
	case fs.ModeSymlink:
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.from
		return w.WriteHeader(header)
	case 0:
	default:
		return fmt.Errorf("a %v cannot be released", e.mode.Type())
	}
	content, err := os.Open(e.from)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}
