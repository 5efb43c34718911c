package hostbundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Version is one bundle of a directory with all that belongs to it.
type Version struct {
	// Tag is the Kubernetes version, or an AgentTag.
	Tag string
	// Architectures as Go names them, sorted.
	Architectures []string
	// Digest of the index, which is what is signed.
	Digest digest.Digest
	// Origin of a bundle that was loaded; empty for slipway-agent.
	Origin Origin

	index      ocispec.Descriptor
	documents  []ocispec.Descriptor
	signatures []ocispec.Descriptor
	blobs      []ocispec.Descriptor
}

// Size of all blobs that belong to the version, in bytes; versions share some of them.
func (v Version) Size() int64 {
	var size int64
	for _, d := range slices.Concat(v.documents, v.signatures, v.blobs) {
		size += d.Size
	}
	return size
}

// version follows everything below a bundle. An architecture whose manifest is not there is
// omitted; all else must be there.
func (d *Directory) version(named ocispec.Descriptor) (Version, error) {
	v := Version{Tag: named.Annotations[ocispec.AnnotationRefName], Digest: named.Digest, index: named}
	var index ocispec.Index
	if err := d.document(named, &index); err != nil {
		return v, err
	}
	v.documents = append(v.documents, plain(named, ocispec.MediaTypeImageIndex))
	for _, descriptor := range index.Manifests {
		if descriptor.Platform == nil || !d.has(descriptor) {
			continue
		}
		var m ocispec.Manifest
		if err := d.document(descriptor, &m); err != nil {
			return v, err
		}
		v.Architectures = append(v.Architectures, descriptor.Platform.Architecture)
		v.documents = append(v.documents, plain(descriptor, ocispec.MediaTypeImageManifest))
		v.blobs = append(v.blobs, plain(m.Config, ""))
		for _, layer := range m.Layers {
			v.blobs = append(v.blobs, plain(layer, ""))
		}
	}
	if len(v.Architectures) == 0 {
		return v, fail(ReasonCorrupt, "the bundle of %s has no architecture whose content is there; copy it again", Title(v.Tag))
	}
	slices.Sort(v.Architectures)
	return v, d.followSignatures(&v)
}

func (d *Directory) followSignatures(v *Version) error {
	found, err := d.signatures(v.Digest)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fail(ReasonUnsigned, "the bundle of %s is not signed, and no host would take it", Title(v.Tag))
	}
	for _, s := range found {
		var m ocispec.Manifest
		if err := d.document(s.descriptor, &m); err != nil {
			return err
		}
		signature := plain(s.descriptor, ocispec.MediaTypeImageManifest)
		signature.ArtifactType = signatureType
		v.signatures = append(v.signatures, signature)
		v.blobs = append(v.blobs, plain(m.Config, ""), plain(s.note, ""))
	}
	return nil
}

// plain keeps what a registry needs of a descriptor.
func plain(d ocispec.Descriptor, mediaType string) ocispec.Descriptor {
	if mediaType == "" {
		mediaType = d.MediaType
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: d.Digest, Size: d.Size}
}

func (d *Directory) has(descriptor ocispec.Descriptor) bool {
	_, err := os.Stat(d.blobPath(descriptor.Digest))
	return err == nil
}

func (d *Directory) blobPath(of digest.Digest) string {
	return filepath.Join(d.path, ocispec.ImageBlobsDir, of.Algorithm().String(), of.Encoded())
}

// named are the bundles that the layout lists.
func (d *Directory) named() []ocispec.Descriptor {
	var named []ocispec.Descriptor
	for _, m := range d.index.Manifests {
		if m.ArtifactType == artifactType {
			named = append(named, m)
		}
	}
	return named
}

// Catalog is what a registry says of a directory: what is in no catalog is not served.
type Catalog struct {
	// Versions by their tags.
	Versions map[string]Version
	// Documents are manifests and indexes, Blobs all else, each by its digest.
	Documents, Blobs map[digest.Digest]ocispec.Descriptor
	// Signatures by the digest of what they are about.
	Signatures map[digest.Digest][]ocispec.Descriptor
}

// Catalog follows all bundles of a directory. A damaged one is omitted, and
// is in the error beside the rest.
func (d *Directory) Catalog() (Catalog, error) {
	c := Catalog{Versions: map[string]Version{}, Documents: map[digest.Digest]ocispec.Descriptor{},
		Blobs: map[digest.Digest]ocispec.Descriptor{}, Signatures: map[digest.Digest][]ocispec.Descriptor{}}
	var errs []error
	for _, named := range d.named() {
		v, err := d.version(named)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Title(v.Tag), err))
			continue
		}
		c.Versions[v.Tag] = v
		for _, document := range slices.Concat(v.documents, v.signatures) {
			c.Documents[document.Digest] = document
		}
		for _, blob := range v.blobs {
			c.Blobs[blob.Digest] = blob
		}
		c.Signatures[v.Digest] = v.signatures
	}
	return c, errors.Join(errs...)
}

// OpenBlob opens what a catalog names. Who reads compares it with its digest.
func (d *Directory) OpenBlob(of digest.Digest) (*os.File, error) {
	if err := of.Validate(); err != nil {
		return nil, fail(ReasonCorrupt, "%q: %w", of, err)
	}
	return os.Open(d.blobPath(of))
}

// readIndex reads the index of a layout; an empty one where there is none yet.
func readIndex(dir string) (ocispec.Index, error) {
	var index ocispec.Index
	data, err := os.ReadFile(filepath.Join(dir, ocispec.ImageIndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return index, fail(ReasonCorrupt, "read %s: %w", filepath.Join(dir, ocispec.ImageIndexFile), err)
	}
	return index, nil
}
