package hostbundle

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/durable"
)

// SignatureType is the artifact type of signatures, by which registries list what
// refers to a bundle.
const SignatureType = signatureType

// MaxDocument bounds each document of a bundle, and MaxDescription all that describe it for one
// architecture, with their signatures, in bytes.
const (
	MaxDocument    = maxDocument
	MaxDescription = 4 * maxDocument
)

// Staging is a layout of one bundle that is being fetched. What is complete has its name,
// what is not goes on where it was, after a kill or a power cut, too. Nothing of it is
// trusted because it is there: once all is, Directory says what it is.
type Staging struct {
	Dir string
	// Keys of which one must have signed the bundle before anything of it is written.
	Keys PublicKeys
}

// Begin makes the directories.
func (s Staging) Begin() error {
	return os.MkdirAll(filepath.Join(s.Dir, ocispec.ImageBlobsDir, digest.SHA256.String()), 0o700)
}

// Has says whether a blob is there, as its digest says.
func (s Staging) Has(d ocispec.Descriptor) bool {
	b, err := s.directory().blob(d)
	if err != nil {
		return false
	}
	return errors.Join(b.verify(), b.Close()) == nil
}

// Have is how much of a blob is there, in bytes.
func (s Staging) Have(d ocispec.Descriptor) int64 {
	for _, path := range []string{s.path(d), s.path(d) + ".part"} {
		if info, err := os.Stat(path); err == nil {
			return info.Size()
		}
	}
	return 0
}

// Part opens what there is of a blob to go on behind it. More than the blob has is none of it.
func (s Staging) Part(d ocispec.Descriptor) (f *os.File, offset int64, err error) {
	if d.Digest.Validate() != nil || d.Size < 0 {
		return nil, 0, fail(ReasonCorrupt, "%q of %d bytes: want a digest of %s or %s", d.Digest, d.Size, digest.SHA256, digest.SHA512)
	}
	if err := os.MkdirAll(filepath.Dir(s.path(d)), 0o700); err != nil {
		return nil, 0, err
	}
	f, err = os.OpenFile(s.path(d)+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	offset, err = f.Seek(0, io.SeekEnd)
	if err == nil && offset > d.Size {
		offset, err = 0, errors.Join(f.Truncate(0), rewind(f))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, offset, nil
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// Complete gives a part its name once it is what its digest says. One that is not goes.
func (s Staging) Complete(d ocispec.Descriptor, f *os.File) error {
	if err := rewind(f); err != nil {
		return err
	}
	verifier := d.Digest.Verifier()
	n, err := io.Copy(verifier, f)
	if err != nil {
		return err
	}
	if n != d.Size || !verifier.Verified() {
		return errors.Join(fail(ReasonCorrupt, "%s is not what its digest says", d.Digest), os.Remove(f.Name()))
	}
	if err := durable.SyncFile(f); err != nil {
		return err
	}
	return durable.Rename(f.Name(), s.path(d))
}

// Document keeps content that was compared with its digest.
func (s Staging) Document(d ocispec.Descriptor, content []byte) error {
	return durable.Write(s.path(d), content, storeMode)
}

// Index says what the bundle of the tag is, and what vouches for it.
func (s Staging) Index(tag string, bundle ocispec.Descriptor, signatures []ocispec.Descriptor) error {
	bundle.ArtifactType, bundle.Annotations = artifactType, map[string]string{ocispec.AnnotationRefName: tag}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{bundle}}
	for _, signature := range signatures {
		signature.ArtifactType = signatureType
		index.Manifests = append(index.Manifests, signature)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(s.Dir, ocispec.ImageIndexFile), data, storeMode)
}

// Open returns what was fetched.
func (s Staging) Open() (*Directory, error) { return OpenDirectory(s.Dir) }

// Remove takes all of it away.
func (s Staging) Remove() error { return durable.RemoveAll(s.Dir) }

func (s Staging) directory() *Directory { return &Directory{path: s.Dir} }

func (s Staging) path(d ocispec.Descriptor) string { return s.directory().blobPath(d.Digest) }
