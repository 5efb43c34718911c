package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// containerdName is the annotation that gives an image its name on import.
const containerdName = "io.containerd.image.name"

// originLabel tells images that were built here from those of upstream, whose names kubeadm
// gives both.
const originLabel = "dev.slipway.origin"

// buildImage stacks the recipe's layers.
func buildImage(r recipe, layers map[string]*layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		Config:       v1.Config{Env: []string{containerPath}, Entrypoint: r.entrypoint, User: r.user, Labels: map[string]string{originLabel: "OwnBuild"}},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", r.ref, err)
	}
	for _, name := range r.layers {
		l, ok := layers[name]
		if !ok {
			return nil, fmt.Errorf("image %s: no layer %q", r.ref, name)
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:   l,
			History: v1.History{CreatedBy: "nodebundle-build: " + name, Created: v1.Time{Time: time.Unix(0, 0).UTC()}},
		})
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", r.ref, err)
		}
	}
	return img, nil
}

// buildIndex makes the images of all recipes, in their order.
func buildIndex(all []recipe, layers map[string]*layer) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, r := range all {
		img, err := buildImage(r, layers)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img,
			Descriptor: v1.Descriptor{
				Annotations: map[string]string{containerdName: r.ref},
				Platform:    &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
			},
		})
	}
	return index, nil
}

// archiveWriter writes an OCI image layout as one tar stream. Blobs come in the
// order of first use and are written once, however many images share them.
type archiveWriter struct {
	tw   *tar.Writer
	done map[v1.Hash]bool
}

// writeArchive writes index and everything it refers to. Equal indexes give
// equal bytes.
func writeArchive(w io.Writer, index v1.ImageIndex) error {
	a := &archiveWriter{tw: tar.NewWriter(w), done: map[v1.Hash]bool{}}
	if err := a.bytes("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	raw, err := index.RawManifest()
	if err != nil {
		return err
	}
	if err := a.bytes("index.json", raw); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		img, err := index.Image(descriptor.Digest)
		if err == nil {
			err = a.image(descriptor.Digest, img)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", descriptor.Annotations[containerdName], err)
		}
	}
	return a.tw.Close()
}

func (a *archiveWriter) image(digest v1.Hash, img v1.Image) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	configDigest, err := img.ConfigName()
	if err != nil {
		return err
	}
	if err := errors.Join(a.blob(digest, manifest), a.blob(configDigest, config)); err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if err := a.layer(l); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiveWriter) layer(l v1.Layer) error {
	digest, err := l.Digest()
	if err != nil || a.done[digest] {
		return err
	}
	a.done[digest] = true
	size, err := l.Size()
	if err != nil {
		return err
	}
	content, err := l.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return a.file(blobPath(digest), content, size)
}

func (a *archiveWriter) blob(digest v1.Hash, content []byte) error {
	if a.done[digest] {
		return nil
	}
	a.done[digest] = true
	return a.bytes(blobPath(digest), content)
}

func (a *archiveWriter) bytes(name string, content []byte) error {
	return a.file(name, bytes.NewReader(content), int64(len(content)))
}

func (a *archiveWriter) file(name string, content io.Reader, size int64) error {
	return writeFile(a.tw, &tar.Header{Name: name, Mode: 0o644, Format: tar.FormatUSTAR}, content, size)
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// replaceFile writes target through a temporary file beside it and renames that
// once it is on disk, so target is never half written.
func replaceFile(target string, mode os.FileMode, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = errors.Join(write(tmp), tmp.Chmod(mode), tmp.Sync())
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), target)
}
