package hostbundle

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/semver"
)

const (
	artifactType  = "application/vnd.slipway.host-bundle.v1"
	signatureType = "application/vnd.slipway.host-bundle.signature.v1"
	configType    = "application/vnd.slipway.host-bundle.config.v1+json"
	noteType      = "application/vnd.slipway.host-bundle.note.v1"

	// maxDocument bounds what is read into memory, in bytes.
	maxDocument = 4 << 20
)

// Directory is an OCI image layout with host bundles.
type Directory struct {
	path  string
	index ocispec.Index
}

// OpenDirectory reads the index of a layout. Nothing of it is trusted yet.
func OpenDirectory(path string) (*Directory, error) {
	d := &Directory{path: path}
	f, err := os.Open(filepath.Join(path, ocispec.ImageIndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(ReasonNotFound, "%s is no OCI image layout; give the directory with the host bundles: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := json.NewDecoder(io.LimitReader(f, maxDocument)).Decode(&d.index); err != nil {
		return nil, fail(ReasonCorrupt, "read %s: %w; copy the directory again", f.Name(), err)
	}
	return d, nil
}

// Versions lists the Kubernetes versions that there are bundles of, from old to new, as
// the layout says; whether they can be trusted, Bundle tells.
func (d *Directory) Versions() []string {
	return slices.DeleteFunc(d.Tags(), func(tag string) bool {
		_, agent := AgentVersion(tag)
		return agent
	})
}

// Tags names all bundles: those of Kubernetes from old to new, then those of slipway-agent.
func (d *Directory) Tags() []string {
	var tags []string
	for _, m := range d.named() {
		tags = append(tags, m.Annotations[ocispec.AnnotationRefName])
	}
	slices.SortFunc(tags, compareTags)
	return slices.Compact(tags)
}

// compareTags orders as Tags does.
func compareTags(a, b string) int {
	va, agentA := AgentVersion(a)
	vb, agentB := AgentVersion(b)
	switch {
	case agentA == agentB:
		return semver.Compare(va, vb)
	case agentA:
		return 1
	}
	return -1
}

// find returns what the layout says of a bundle.
func (d *Directory) find(tag string) (ocispec.Descriptor, error) {
	for _, m := range d.named() {
		if m.Annotations[ocispec.AnnotationRefName] == tag {
			return m, nil
		}
	}
	return ocispec.Descriptor{}, fail(ReasonNotFound, "%s has no bundle of %s; it has: %s", d.path, Title(tag), strings.Join(d.Tags(), ", "))
}

// Bundle returns the bundle of a Kubernetes version, or of an AgentTag, for one architecture,
// once a signature by one of the keys holds for it. The error is an *Error when it must not
// be used.
func (d *Directory) Bundle(tag, architecture string, keys PublicKeys) (*Bundle, error) {
	named, err := d.find(tag)
	if err != nil {
		return nil, err
	}
	notes, err := d.notes(named.Digest)
	if err != nil {
		return nil, err
	}
	if err := keys.Verify(tag, named.Digest, notes); err != nil {
		return nil, err
	}
	// From here on every document is what a trusted digest says.
	var index ocispec.Index
	if err := d.document(named, &index); err != nil {
		return nil, err
	}
	return d.manifest(named, index, tag, architecture)
}

// signature vouches for an index by a signed note.
type signature struct{ descriptor, note ocispec.Descriptor }

// signatures are those whose subject is the index.
func (d *Directory) signatures(index digest.Digest) ([]signature, error) {
	var found []signature
	for _, descriptor := range d.index.Manifests {
		if descriptor.ArtifactType != signatureType {
			continue
		}
		var m ocispec.Manifest
		if err := d.document(descriptor, &m); err != nil {
			return nil, err
		}
		if m.Subject != nil && m.Subject.Digest == index && len(m.Layers) == 1 {
			found = append(found, signature{descriptor, m.Layers[0]})
		}
	}
	return found, nil
}

// notes are the content of the signatures of the index.
func (d *Directory) notes(index digest.Digest) ([][]byte, error) {
	found, err := d.signatures(index)
	if err != nil {
		return nil, err
	}
	var notes [][]byte
	for _, s := range found {
		signed, err := d.bytes(s.note)
		if err != nil {
			return nil, err
		}
		notes = append(notes, signed)
	}
	return notes, nil
}

func (d *Directory) manifest(named ocispec.Descriptor, index ocispec.Index, tag, architecture string) (*Bundle, error) {
	var others []string
	for _, descriptor := range index.Manifests {
		if descriptor.Platform == nil {
			continue
		}
		if descriptor.Platform.Architecture != architecture {
			others = append(others, descriptor.Platform.Architecture)
			continue
		}
		b := &Bundle{Digest: descriptor.Digest, directory: d, index: named, manifest: descriptor, layers: map[digest.Digest]ocispec.Descriptor{}}
		var m ocispec.Manifest
		if err := d.document(descriptor, &m); err != nil {
			return nil, err
		}
		if err := d.document(m.Config, &b.Contents); err != nil {
			return nil, err
		}
		b.config = m.Config
		for _, layer := range m.Layers {
			b.layers[layer.Digest] = layer
		}
		return b, b.validate(tag, architecture)
	}
	return nil, fail(ReasonWrongArchitecture, "the bundle of %s is for %s, and this host is %s; get the one for %s",
		Title(tag), strings.Join(others, ", "), architecture, architecture)
}

// document reads JSON whose digest is known.
func (d *Directory) document(descriptor ocispec.Descriptor, into any) error {
	data, err := d.bytes(descriptor)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fail(ReasonCorrupt, "read %s: %w", descriptor.Digest, err)
	}
	return nil
}

func (d *Directory) bytes(descriptor ocispec.Descriptor) ([]byte, error) {
	if descriptor.Size > maxDocument {
		return nil, fail(ReasonCorrupt, "%s has %d bytes, more than any document of a bundle", descriptor.Digest, descriptor.Size)
	}
	blob, err := d.blob(descriptor)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	data, err := io.ReadAll(blob)
	if err != nil {
		return nil, err
	}
	return data, blob.verify()
}

// blob opens content that verify compares with its digest.
func (d *Directory) blob(descriptor ocispec.Descriptor) (*blob, error) {
	if err := descriptor.Digest.Validate(); err != nil {
		return nil, fail(ReasonCorrupt, "%q: %w", descriptor.Digest, err)
	}
	f, err := os.Open(d.blobPath(descriptor.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(ReasonCorrupt, "the layout lacks content: %w; copy it again", err)
	}
	if err != nil {
		return nil, err
	}
	verifier := descriptor.Digest.Verifier()
	return &blob{Reader: io.TeeReader(io.LimitReader(f, descriptor.Size), verifier), Closer: f, digest: descriptor.Digest, verifier: verifier}, nil
}

type blob struct {
	io.Reader
	io.Closer
	digest   digest.Digest
	verifier digest.Verifier
}

// verify reads the rest and compares all of it with the digest.
func (b *blob) verify() error {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	if !b.verifier.Verified() {
		return fail(ReasonCorrupt, "%s is damaged or cut off: it has another digest; copy the bundle again", b.digest)
	}
	return nil
}
