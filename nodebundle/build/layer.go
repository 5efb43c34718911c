package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is one path of a layer. Exactly one of source, link and content is used:
// a file copied from the machine, a symbolic link, or a file (mode has no
// ModeDir) or directory made up here.
type entry struct {
	path    string // inside the image, without a leading slash
	mode    os.FileMode
	source  string
	link    string
	content string
}

// program is an executable copied from source to the image path p.
func program(p, source string) entry { return entry{path: p, mode: 0o755, source: source} }

// file is a small text file.
func file(p, content string) entry { return entry{path: p, mode: 0o644, content: content} }

// symlink points p at target.
func symlink(p, target string) entry { return entry{path: p, mode: 0o777, link: target} }

// directory is an empty directory.
func directory(p string, mode os.FileMode) entry { return entry{path: p, mode: mode | os.ModeDir} }

// layer is an uncompressed image layer whose bytes depend on its entries alone:
// no times, no owners, no order of a directory walk. It is made anew from the
// entries each time it is read, so a layer of 150 MB needs neither memory nor a
// temporary file. It implements v1.Layer.
type layer struct {
	name    string
	entries []entry
	digest  v1.Hash
	size    int64
}

// newLayer sorts entries, adds the directories above them and digests the result.
func newLayer(name string, entries ...entry) (*layer, error) {
	l := &layer{name: name, entries: withParents(entries)}
	hash := sha256.New()
	counter := &countingWriter{w: hash}
	if err := l.write(counter); err != nil {
		return nil, fmt.Errorf("layer %s: %w", name, err)
	}
	l.digest = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}
	l.size = counter.n
	return l, nil
}

// withParents returns entries in path order, each after the directories above it.
func withParents(entries []entry) []entry {
	byPath := map[string]entry{}
	for _, e := range entries {
		byPath[e.path] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
			if _, ok := byPath[dir]; !ok {
				byPath[dir] = directory(dir, 0o755)
			}
		}
	}
	sorted := make([]entry, 0, len(byPath))
	for _, e := range byPath {
		sorted = append(sorted, e)
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].path < sorted[j].path })
	return sorted
}

func (l *layer) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, e := range l.entries {
		if err := writeEntry(tw, e); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, e entry) error {
	// 01777 is the only special mode in use; tar and os.FileMode number it differently.
	mode := int64(e.mode.Perm())
	if e.mode&os.ModeSticky != 0 {
		mode |= 0o1000
	}
	header := &tar.Header{Name: e.path, Mode: mode, Format: tar.FormatUSTAR}
	switch {
	case e.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, e.path+"/"
		return tw.WriteHeader(header)
	case e.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		return tw.WriteHeader(header)
	case e.source == "":
		return writeFile(tw, header, strings.NewReader(e.content), int64(len(e.content)))
	}
	f, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return writeFile(tw, header, f, info.Size())
}

func writeFile(tw *tar.Writer, header *tar.Header, content io.Reader, size int64) error {
	header.Typeflag, header.Size = tar.TypeReg, size
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(tw, content)
	return err
}

// Digest is the digest of the layer as stored, which is its DiffID: layers are
// kept uncompressed, since they only ever travel within one machine.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the uncompressed layer.
func (l *layer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Size is the layer's size in bytes.
func (l *layer) Size() (int64, error) { return l.size, nil }

// MediaType is that of an uncompressed OCI layer.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// Compressed returns the layer as stored.
func (l *layer) Compressed() (io.ReadCloser, error) { return l.Uncompressed() }

// Uncompressed returns the layer's tar stream. Closing it early stops its making.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(l.write(w)) }()
	return r, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

var _ v1.Layer = (*layer)(nil)
