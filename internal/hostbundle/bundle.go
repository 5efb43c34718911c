package hostbundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// window bounds the memory of compression on both sides, in bytes.
const window = 8 << 20

// Bundle is a verified bundle for one architecture.
type Bundle struct {
	Contents
	// Digest of the manifest.
	Digest digest.Digest

	directory *Directory
	// index of the version, manifest of the architecture, and config of that.
	index, manifest, config ocispec.Descriptor

	layers map[digest.Digest]ocispec.Descriptor
}

func (b *Bundle) validate(tag, architecture string) error {
	err := b.Validate()
	if b.Tag() != tag || b.Architecture != architecture {
		err = errors.Join(err, fmt.Errorf("it is of %s for %s", Title(b.Tag()), b.Architecture))
	}
	for _, c := range b.Components {
		if b.layers[c.Layer].MediaType != ocispec.MediaTypeImageLayerZstd {
			err = errors.Join(err, fmt.Errorf("component %s: there is no layer %s of tar and zstd", c.Name, c.Layer))
		}
	}
	if err != nil {
		return fail(ReasonCorrupt, "the bundle of %s for %s cannot be used: %w", Title(tag), architecture, err)
	}
	return nil
}

// Index is the digest of the index of the version, which is what its signatures are for.
func (b *Bundle) Index() digest.Digest { return b.index.Digest }

// Blob is the content of a component.
func (b *Bundle) Blob(c Component) ocispec.Descriptor { return b.layers[c.Layer] }

// Unpack calls create for each file of a component, in sequence, and compares all content
// with its digests. What create was given must not be used before Unpack returned nil:
// content is compared once it was read.
func (b *Bundle) Unpack(c Component, create func(File, io.Reader) error) error {
	blob, err := b.directory.blob(b.layers[c.Layer])
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	decompressed, err := zstd.NewReader(blob, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return err
	}
	defer decompressed.Close()
	err = unpack(tar.NewReader(decompressed), c, create)
	var damaged, own *Error
	switch {
	case err == nil:
		err = blob.verify()
	case errors.As(err, &own) && errors.As(blob.verify(), &damaged):
		// the better explanation of whatever the archive's reader found
		err = damaged
	}
	if err != nil {
		return fmt.Errorf("component %s %s: %w", c.Name, c.Version, err)
	}
	return nil
}

func unpack(archive *tar.Reader, c Component, create func(File, io.Reader) error) error {
	for _, want := range c.Files {
		header, err := archive.Next()
		if err != nil {
			return fail(ReasonCorrupt, "want %s: %w", want.Path, err)
		}
		if header.Typeflag != tar.TypeReg || header.Name != want.Path || header.Size != want.Size {
			return fail(ReasonCorrupt, "want the file %s of %d bytes, found %s of %d", want.Path, want.Size, header.Name, header.Size)
		}
		content := &content{Reader: archive, verifier: want.Digest.Verifier()}
		if err := create(want, content); err != nil {
			if content.err != nil {
				return fail(ReasonCorrupt, "%s: %w", want.Path, content.err)
			}
			return err
		}
		if !content.verifier.Verified() {
			return fail(ReasonCorrupt, "%s is not what its digest says", want.Path)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return fail(ReasonCorrupt, "the layer holds more than its list says, or ends badly: %w", err)
	}
	return nil
}

// content tells an error of the archive from one of whoever writes it down.
type content struct {
	io.Reader
	verifier digest.Verifier
	err      error
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	// a verifier never fails
	_, _ = c.verifier.Write(p[:n])
	return n, err
}

// Check tells whether content is what the bundle says of the file.
func (f File) Check(content io.Reader) (bool, error) {
	verifier := f.Digest.Verifier()
	n, err := io.Copy(verifier, content)
	return err == nil && n == f.Size && verifier.Verified(), err
}
