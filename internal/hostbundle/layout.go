package hostbundle

import (
	"encoding/json"
	"io"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Layout is the part of a directory that one bundle needs: a layout of its own once Index
// and Blobs are elsewhere. Whoever reads it there verifies it again.
type Layout struct {
	// Index is the content of index.json.
	Index []byte
	// Blobs are what is below blobs, signatures included, each once.
	Blobs []ocispec.Descriptor

	directory *Directory
}

// Layout tells what of its directory the bundle needs.
func (b *Bundle) Layout() (Layout, error) {
	l := Layout{directory: b.directory}
	seen := map[string]bool{}
	add := func(descriptors ...ocispec.Descriptor) {
		for _, d := range descriptors {
			if !seen[d.Digest.String()] {
				seen[d.Digest.String()], l.Blobs = true, append(l.Blobs, ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
			}
		}
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{b.index}}
	add(b.index, b.manifest, b.config)
	for _, layer := range b.Components {
		add(b.layers[layer.Layer])
	}
	signatures, err := b.directory.signatures(b.index.Digest)
	if err != nil {
		return Layout{}, err
	}
	for _, s := range signatures {
		index.Manifests = append(index.Manifests, s.descriptor)
		add(s.descriptor, s.note)
	}
	l.Index, err = json.Marshal(index)
	return l, err
}

// Open reads a blob. What it holds is not compared with its digest; see Verify.
func (l Layout) Open(blob ocispec.Descriptor) (io.ReadCloser, error) { return l.directory.blob(blob) }

// Verify compares a blob with its digest.
func (l Layout) Verify(descriptor ocispec.Descriptor) error {
	b, err := l.directory.blob(descriptor)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	return b.verify()
}
