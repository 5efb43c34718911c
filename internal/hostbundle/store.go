package hostbundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/durable"
)

// Store is a directory of bundles that a management cluster serves: a layout in which
// bundles of several sources share what they have in common. Each change is whole or did
// not happen, also where the power goes in the middle; who reads meanwhile sees the
// one or the other.
type Store struct {
	// Dir is made with the first bundle.
	Dir string
}

// PlaneStore is the name of a plane's store in its state directory.
const PlaneStore = "host-bundles"

// storeMode lets everybody read, as a store is served by whoever runs the manager.
const storeMode = 0o644

// List tells the bundles of the store, as Directory.Tags orders them; none where there is no
// store.
func (s Store) List() ([]Version, error) {
	index, err := readIndex(s.Dir)
	if err != nil {
		return nil, err
	}
	catalog, err := (&Directory{path: s.Dir, index: index}).Catalog()
	versions := make([]Version, 0, len(catalog.Versions))
	for _, v := range catalog.Versions {
		versions = append(versions, v)
	}
	slices.SortFunc(versions, func(a, b Version) int { return compareTags(a.Tag, b.Tag) })
	return versions, err
}

// Digests of the bundles by tag, those among them whose content is damaged.
func (s Store) Digests() (map[string]digest.Digest, error) {
	index, err := readIndex(s.Dir)
	if err != nil {
		return nil, err
	}
	digests := map[string]digest.Digest{}
	for _, named := range (&Directory{index: index}).named() {
		digests[named.Annotations[ocispec.AnnotationRefName]] = named.Digest
	}
	return digests, nil
}

// Load copies bundles into the store, all of the directory when no tag is named. One
// that is there already is compared, and mended. With keys a signature by one of them
// must hold; without, that is up to the hosts. It returns what was loaded.
func (s Store) Load(from *Directory, keys *PublicKeys, tags ...string) ([]Version, error) {
	if len(tags) == 0 {
		tags = from.Tags()
	}
	var loading []Version
	for _, tag := range tags {
		v, err := from.loadable(tag, keys)
		if err != nil {
			return nil, err
		}
		loading = append(loading, v)
	}
	if err := os.MkdirAll(s.blobs(), 0o755); err != nil {
		return nil, err
	}
	unlock, err := durable.Lock(s.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, v := range loading {
		for _, blob := range slices.Concat(v.documents, v.signatures, v.blobs) {
			if err := s.copy(from, blob); err != nil {
				return nil, fmt.Errorf("%s: %w", Title(v.Tag), err)
			}
		}
	}
	if err := durable.SyncDir(s.blobs()); err != nil {
		return nil, err
	}
	return loading, s.change(func(index *ocispec.Index) {
		for _, v := range loading {
			drop(index, v.Tag)
			index.Manifests = append(index.Manifests, v.index)
			index.Manifests = append(index.Manifests, v.signatures...)
		}
	})
}

// loadable follows one bundle of a directory, and holds it against the keys.
func (d *Directory) loadable(tag string, keys *PublicKeys) (Version, error) {
	named, err := d.find(tag)
	if err != nil {
		return Version{}, err
	}
	if version, _ := AgentVersion(tag); !isVersion(version) {
		return Version{}, fail(ReasonCorrupt, "%s has a bundle of %q, which is no version such as v1.36.3", d.path, tag)
	}
	v, err := d.version(named)
	if err != nil {
		return v, err
	}
	if v.Origin, err = d.origin(v); err != nil || keys == nil {
		return v, err
	}
	notes, err := d.notes(v.Digest)
	if err != nil {
		return v, err
	}
	return v, keys.Verify(tag, v.Digest, notes)
}

// origin is what the contents of a bundle say, which are the same for all architectures.
func (d *Directory) origin(v Version) (Origin, error) {
	for _, blob := range v.blobs {
		if blob.MediaType == configType {
			var c Contents
			err := d.document(blob, &c)
			return c.BuiltBy(), err
		}
	}
	return "", nil
}

// Remove takes bundles out of the store, and what no other one needs.
func (s Store) Remove(tags ...string) error {
	index, err := readIndex(s.Dir)
	if err != nil || len(tags) == 0 {
		return err
	}
	there := (&Directory{index: index}).Tags()
	for _, tag := range tags {
		if !slices.Contains(there, tag) {
			return fail(ReasonNotFound, "no bundle of %s was loaded; `slipway bundle list` shows those that were", Title(tag))
		}
	}
	unlock, err := durable.Lock(s.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	return s.change(func(index *ocispec.Index) {
		for _, tag := range tags {
			drop(index, tag)
		}
	})
}

// drop takes a bundle out of a layout. Its signatures go with what they are about.
func drop(index *ocispec.Index, tag string) {
	index.Manifests = slices.DeleteFunc(index.Manifests, func(m ocispec.Descriptor) bool {
		return m.ArtifactType == artifactType && m.Annotations[ocispec.AnnotationRefName] == tag
	})
}

// change writes another index, then takes away what it has no use for: signatures of what
// is gone, and content. The caller holds the lock.
func (s Store) change(edit func(*ocispec.Index)) error {
	index, err := readIndex(s.Dir)
	if err != nil {
		return err
	}
	index.Versioned, index.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageIndex
	edit(&index)
	d := &Directory{path: s.Dir, index: index}
	needed := map[string]bool{}
	keep := []ocispec.Descriptor{}
	for _, named := range d.named() {
		v, err := d.version(named)
		if err != nil {
			// Nothing is removed while it is unknown what is needed.
			return fmt.Errorf("the bundle of %s that was loaded: %w; load it again, or remove it", Title(v.Tag), err)
		}
		for _, blob := range slices.Concat(v.documents, v.signatures, v.blobs) {
			needed[blob.Digest.Encoded()] = true
		}
		keep = append(keep, v.index)
		keep = append(keep, v.signatures...)
	}
	index.Manifests = keep
	if err := s.write(index); err != nil {
		return err
	}
	return s.sweep(needed)
}

// write puts the index of the layout in place.
func (s Store) write(index ocispec.Index) error {
	version, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return errors.Join(durable.Write(filepath.Join(s.Dir, ocispec.ImageLayoutFile), version, storeMode),
		durable.Write(filepath.Join(s.Dir, ocispec.ImageIndexFile), data, storeMode))
}

// sweep removes blobs that nothing needs, and leftovers of killed processes.
func (s Store) sweep(needed map[string]bool) error {
	entries, err := os.ReadDir(s.blobs())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if needed[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(s.blobs(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return durable.SyncDir(s.blobs())
}

// copy brings a blob into the store, unless it is there as its digest says.
func (s Store) copy(from *Directory, descriptor ocispec.Descriptor) error {
	if descriptor.Digest.Algorithm() != digest.SHA256 {
		return fail(ReasonCorrupt, "%q: want a digest of %s", descriptor.Digest, digest.SHA256)
	}
	here := &Directory{path: s.Dir}
	if there, err := here.blob(descriptor); err == nil {
		whole := there.verify() == nil
		if err := there.Close(); err != nil || whole {
			return err
		}
	}
	source, err := from.blob(descriptor)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	return durable.WriteFrom(here.blobPath(descriptor.Digest), storeMode, func(w io.Writer) error {
		if _, err := io.Copy(w, source); err != nil {
			return err
		}
		return source.verify()
	})
}

func (s Store) blobs() string {
	return filepath.Join(s.Dir, ocispec.ImageBlobsDir, digest.SHA256.String())
}
