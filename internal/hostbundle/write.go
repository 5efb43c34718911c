package hostbundle

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/note"
)

// Writer makes a layout. Equal inputs give equal bytes.
type Writer struct {
	dir    string
	signer note.Signer
	index  ocispec.Index
	layers map[digest.Digest]ocispec.Descriptor
}

// NewWriter begins a layout in a directory that is empty or not there yet. Close ends it.
func NewWriter(dir string, signer note.Signer) (*Writer, error) {
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty", dir)
	}
	w := &Writer{dir: dir, signer: signer, layers: map[digest.Digest]ocispec.Descriptor{},
		index: ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}}
	return w, os.MkdirAll(w.blobs(), 0o755)
}

func (w *Writer) blobs() string {
	return filepath.Join(w.dir, ocispec.ImageBlobsDir, digest.SHA256.String())
}

// Source is a file that goes into a component.
type Source struct {
	// Path in the component.
	Path string
	// From is the file to read.
	From string
	// Mode holds the permission bits.
	Mode uint32
}

// Component writes the layer of a component. Bundles that name it share the layer.
func (w *Writer) Component(name, version string, sources []Source) (Component, error) {
	c := Component{Name: name, Version: version}
	tmp, err := os.CreateTemp(w.blobs(), ".layer-")
	if err != nil {
		return c, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	digester := digest.SHA256.Digester()
	err = compress(io.MultiWriter(tmp, digester.Hash()), func(archive *tar.Writer) error {
		for _, s := range sources {
			f, err := s.add(archive)
			if err != nil {
				return err
			}
			c.Files = append(c.Files, f)
		}
		return nil
	})
	info, statErr := tmp.Stat()
	if err = errors.Join(err, statErr, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return c, fmt.Errorf("component %s: %w", name, err)
	}
	c.Layer = digester.Digest()
	w.layers[c.Layer] = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: c.Layer, Size: info.Size(),
		Annotations: map[string]string{ocispec.AnnotationTitle: name + "-" + version + ".tar.zst"}}
	return c, os.Rename(tmp.Name(), filepath.Join(w.blobs(), c.Layer.Encoded()))
}

// compress writes a tar archive with zstd. One encoder alone gives the same bytes on
// machines of any number of processors.
func compress(to io.Writer, fill func(*tar.Writer) error) error {
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	if err := fill(archive); err != nil {
		return errors.Join(err, compressed.Close())
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func (s Source) add(archive *tar.Writer) (File, error) {
	f, err := os.Open(s.From)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	err = archive.WriteHeader(&tar.Header{Name: s.Path, Mode: int64(s.Mode), Size: info.Size(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR})
	if err != nil {
		return File{}, err
	}
	digester := digest.SHA256.Digester()
	_, err = io.Copy(io.MultiWriter(archive, digester.Hash()), f)
	return File{Path: s.Path, Mode: s.Mode, Size: info.Size(), Digest: digester.Digest()}, err
}

// Bundle writes and signs the bundle of a Kubernetes version, or of an AgentTag, with
// contents for each of its architectures, whose components Component has written.
func (w *Writer) Bundle(tag string, contents ...Contents) error {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: artifactType}
	for _, c := range contents {
		if c.Tag() != tag {
			return fmt.Errorf("the contents are of %s, and the bundle of %s", Title(c.Tag()), Title(tag))
		}
		manifest, err := w.manifest(c)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	bundle, err := w.document(index, ocispec.MediaTypeImageIndex)
	if err != nil {
		return err
	}
	signature, err := w.sign(tag, bundle)
	if err != nil {
		return err
	}
	bundle.ArtifactType, bundle.Annotations = artifactType, map[string]string{ocispec.AnnotationRefName: tag}
	w.index.Manifests = append(w.index.Manifests, bundle, signature)
	return nil
}

func (w *Writer) manifest(c Contents) (ocispec.Descriptor, error) {
	if err := c.Validate(); err != nil {
		return ocispec.Descriptor{}, err
	}
	config, err := w.document(c, configType)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType, Config: config}
	for _, component := range c.Components {
		m.Layers = append(m.Layers, w.layers[component.Layer])
	}
	descriptor, err := w.document(m, ocispec.MediaTypeImageManifest)
	descriptor.ArtifactType = artifactType
	descriptor.Platform = &ocispec.Platform{OS: "linux", Architecture: c.Architecture}
	return descriptor, err
}

// sign makes the signature an artifact whose subject is the bundle: registries list
// what refers to an artifact.
func (w *Writer) sign(tag string, bundle ocispec.Descriptor) (ocispec.Descriptor, error) {
	signed, err := note.Sign(&note.Note{Text: statement(tag, bundle.Digest)}, w.signer)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer, err := w.blob(signed, noteType)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config, err := w.blob(ocispec.DescriptorEmptyJSON.Data, ocispec.MediaTypeEmptyJSON)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	signature, err := w.document(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: signatureType, Config: config, Layers: []ocispec.Descriptor{layer}, Subject: &bundle}, ocispec.MediaTypeImageManifest)
	signature.ArtifactType = signatureType
	return signature, err
}

// Close writes the index. A layout without one is none.
func (w *Writer) Close() error {
	version, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	index, err := json.Marshal(w.index)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(w.dir, ocispec.ImageLayoutFile), version, 0o644),
		os.WriteFile(filepath.Join(w.dir, ocispec.ImageIndexFile), index, 0o644))
}

// Discard removes what was written of a layout that Close did not end.
func (w *Writer) Discard() error { return os.RemoveAll(filepath.Join(w.dir, ocispec.ImageBlobsDir)) }

func (w *Writer) document(content any, mediaType string) (ocispec.Descriptor, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return w.blob(data, mediaType)
}

func (w *Writer) blob(data []byte, mediaType string) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return d, os.WriteFile(filepath.Join(w.blobs(), d.Digest.Encoded()), data, 0o644)
}
