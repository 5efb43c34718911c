package hostbundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// inLayout are the files of a layout that are extracted from an archive.
var inLayout = regexp.MustCompile(`^(` + ocispec.ImageLayoutFile + `|` + ocispec.ImageIndexFile + `|` + ocispec.ImageBlobsDir + `/sha256/[0-9a-f]{64})$`)

// Extract writes the layout in a tar archive, such as the one of a release, into an empty
// directory. What else is in the archive is refused, and so is more content than the archive has bytes.
func Extract(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	left := info.Size()
	if err := os.MkdirAll(filepath.Join(dir, ocispec.ImageBlobsDir, "sha256"), 0o700); err != nil {
		return err
	}
	for files := tar.NewReader(f); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fail(ReasonCorrupt, "%s is no tar archive of host bundles, or is cut off: %w", archive, err)
		}
		name := path.Clean(header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || !inLayout.MatchString(name) {
			return fail(ReasonCorrupt, "%s holds %q, which is no part of an OCI image layout", archive, header.Name)
		}
		// The holes of a sparse file have no bytes in the archive, and fill a disk.
		if left -= header.Size; header.Size < 0 || left < 0 {
			return fail(ReasonCorrupt, "%s has more content than bytes", archive)
		}
		if err := extract(filepath.Join(dir, name), files); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, name, err)
		}
	}
}

func extract(to string, content io.Reader) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
