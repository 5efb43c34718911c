package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/instance"
)

// format is the version of what this package writes. A greater one is refused.
const format = 1

const (
	manifestName = "backup.json"
	snapshotName = "etcd.db"
	configName   = instance.ConfigFile
)

// directories of a state directory that a backup has, beside etcd's.
var directories = []string{"encryption", "pki"}

// Limits of what is read from a backup before its hashes are known to be right.
const (
	maxManifest = 1 << 20
	maxFile     = 1 << 20
)

// Manifest says what a backup holds. It is its first entry.
type Manifest struct {
	// Format of the file.
	Format int `json:"format"`
	// Name of the plane.
	Name string `json:"name"`
	// Created is when the snapshot was taken.
	Created time.Time `json:"created"`
	// Slipway and Kubernetes are the versions of what made it.
	Slipway    string `json:"slipway"`
	Kubernetes string `json:"kubernetes"`
	// Content is what the snapshot holds.
	Content Content `json:"content"`
	// Files follow in this order.
	Files []File `json:"files"`
}

// File is an entry of a backup.
type File struct {
	// Name is a path below the state directory, with slashes.
	Name string `json:"name"`
	// Size in bytes.
	Size int64 `json:"size"`
	// SHA256 of the content, in hexadecimal.
	SHA256 string `json:"sha256"`

	from string
}

// DamagedError says that a file is no whole backup of this program.
type DamagedError struct {
	// Path of the file, and what is wrong with it.
	Path, What string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; use another backup", e.Path, e.What)
}

// KeyError says that a key does not open a backup.
type KeyError struct {
	// Path of the backup.
	Path string
	err  error
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("%s was encrypted for another key than those given: %v", e.Path, e.err)
}

// Unwrap returns what age says.
func (e *KeyError) Unwrap() error { return e.err }

// write writes the backup to the file at to, for those who have a key of one of the recipients. The file is
// whole or not there.
func write(to string, m *Manifest, recipients []age.Recipient) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFrom(to, 0o600, func(out io.Writer) error {
		encrypted, err := age.Encrypt(out, recipients...)
		if err != nil {
			return err
		}
		compressed := gzip.NewWriter(encrypted)
		archive := tar.NewWriter(compressed)
		if err := add(archive, manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
			return err
		}
		for _, f := range m.Files {
			if err := addFile(archive, f); err != nil {
				return err
			}
		}
		return errors.Join(archive.Close(), compressed.Close(), encrypted.Close())
	})
}

func addFile(archive *tar.Writer, f File) error {
	content, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	if err := add(archive, f.Name, f.Size, io.TeeReader(content, sum)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s changed while the backup was written: run the command again", f.from)
	}
	return nil
}

func add(archive *tar.Writer, name string, size int64, content io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// describe returns the File of the content at from.
func describe(name, from string) (File, error) {
	content, err := os.Open(from)
	if err != nil {
		return File{}, err
	}
	defer content.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, content)
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), from: from}, err
}

// reader reads a backup from its begin to its end.
type reader struct {
	path       string
	file       *os.File
	decrypted  io.Reader
	compressed *gzip.Reader
	archive    *tar.Reader
	Manifest
}

// open opens a backup with one of the identities, and reads its manifest. The caller closes it.
func open(path string, identities []age.Identity) (*reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, file: file}
	if err := r.begin(identities); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

func (r *reader) begin(identities []age.Identity) error {
	var err error
	r.decrypted, err = age.Decrypt(r.file, identities...)
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return &KeyError{Path: r.path, err: errors.Join(none.Errors...)}
	}
	if err != nil {
		return r.damaged("it does not begin as a backup does: %v", err)
	}
	if r.compressed, err = gzip.NewReader(r.decrypted); err != nil {
		return r.damaged("%v", err)
	}
	r.archive = tar.NewReader(r.compressed)
	header, err := r.archive.Next()
	if err != nil {
		return r.damaged("%v", err)
	}
	if header.Name != manifestName || header.Size > maxManifest {
		return r.damaged("its first entry is not %s", manifestName)
	}
	if err := json.NewDecoder(io.LimitReader(r.archive, header.Size)).Decode(&r.Manifest); err != nil {
		return r.damaged("%s: %v", manifestName, err)
	}
	return r.check()
}

// check refuses a manifest that this program did not write.
func (r *reader) check() error {
	if r.Format != format {
		return fmt.Errorf("%s has format %d and was written by slipway %s; this slipway reads format %d: use that version", r.path, r.Format, r.Slipway, format)
	}
	for _, f := range r.Files {
		switch dir, base := path.Split(f.Name); {
		case f.Size < 0:
			return r.damaged("%q has a size of %d", f.Name, f.Size)
		case f.Name == snapshotName:
			continue
		case f.Size > maxFile:
			return r.damaged("%q has %d bytes", f.Name, f.Size)
		case f.Name == configName:
		case !fs.ValidPath(f.Name) || base == "" || !slices.Contains(directories, strings.SplitN(dir, "/", 2)[0]):
			return r.damaged("%q is nothing of a plane", f.Name)
		}
	}
	for _, name := range []string{snapshotName, configName} {
		if !slices.ContainsFunc(r.Files, func(f File) bool { return f.Name == name }) {
			return r.damaged("%s is missing", name)
		}
	}
	return nil
}

// extract writes all files below dir, which only its owner may enter, and checks them.
func (r *reader) extract(dir string) error {
	for _, f := range r.Files {
		header, err := r.archive.Next()
		if err != nil {
			return r.damaged("before %s: %v", f.Name, err)
		}
		if header.Name != f.Name || header.Size != f.Size || header.Typeflag != tar.TypeReg {
			return r.damaged("%q follows where %s should", header.Name, f.Name)
		}
		if err := r.extractFile(filepath.Join(dir, filepath.FromSlash(f.Name)), f); err != nil {
			return err
		}
	}
	return r.end()
}

// end finds a backup that was cut off: the end of the archive is not the end of what was encrypted.
func (r *reader) end() error {
	if _, err := r.archive.Next(); !errors.Is(err, io.EOF) {
		return r.damaged("it does not end where it should")
	}
	for _, rest := range []io.Reader{r.compressed, r.decrypted} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return r.damaged("its end: %v", err)
		}
	}
	return nil
}

func (r *reader) extractFile(to string, f File) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	content := &summed{from: io.LimitReader(r.archive, f.Size), sum: sha256.New()}
	err := durable.WriteFrom(to, 0o600, func(out io.Writer) error {
		_, err := io.Copy(out, content)
		return err
	})
	switch {
	case content.err != nil:
		return r.damaged("%s: %v", f.Name, content.err)
	case err != nil:
		return err
	case hex.EncodeToString(content.sum.Sum(nil)) != f.SHA256:
		return r.damaged("%s is not what was written", f.Name)
	}
	return nil
}

func (r *reader) damaged(format string, arguments ...any) error {
	return &DamagedError{Path: r.path, What: fmt.Sprintf(format, arguments...)}
}

// summed tells an error of what is read from one of where it is written to.
type summed struct {
	from io.Reader
	sum  hash.Hash
	err  error
}

func (s *summed) Read(into []byte) (int, error) {
	n, err := s.from.Read(into)
	s.sum.Write(into[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
