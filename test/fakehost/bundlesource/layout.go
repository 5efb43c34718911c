package bundlesource

import (
	"context"
	"io"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Layout is a source that has a directory with host bundles and no network; its versions are
// for the test to tell.
type Layout struct {
	Dir string
	// Keys are those of which one signed the bundles.
	Keys hostbundle.PublicKeys
}

// String implements software.Source.
func (l Layout) String() string { return l.Dir }

// Stage implements software.Source.
func (l Layout) Stage(ctx context.Context, s hostbundle.Staging, version, architecture string) error {
	d, err := hostbundle.OpenDirectory(l.Dir)
	if err != nil {
		return err
	}
	b, err := d.Bundle(version, architecture, l.Keys)
	if err != nil {
		return err
	}
	of, err := b.Layout()
	if err != nil {
		return err
	}
	if err := s.Begin(); err != nil {
		return err
	}
	for _, blob := range of.Blobs {
		if blob.MediaType == ocispec.MediaTypeImageLayerZstd {
			continue
		}
		if err := l.Blob(ctx, s, blob, nil); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(s.Dir, ocispec.ImageIndexFile), of.Index, 0o600)
}

// Blob implements software.Source.
func (l Layout) Blob(_ context.Context, s hostbundle.Staging, d ocispec.Descriptor, progress func(have, size int64)) error {
	from, err := os.Open(filepath.Join(l.Dir, ocispec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded()))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, offset, err := s.Part(d)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if _, err := from.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if progress != nil {
		progress(d.Size, d.Size)
	}
	return s.Complete(d, to)
}
