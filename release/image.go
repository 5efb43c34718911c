package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user of every image, as in upstream's Deployments.
const nobody = "65532:65532"

// writeImages writes an archive in OCI layout for each program: one index with an
// image for each architecture. `ctr images import`, `skopeo` and `docker load`
// read it.
func (r *release) writeImages(context.Context) error {
	for _, p := range programs {
		if !p.image {
			continue
		}
		if err := r.writeImage(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (r *release) imageReference(p program) string {
	return imageRepository + p.name + ":" + r.version
}

func (r *release) writeImage(p program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.architectures {
		img, err := r.image(p, arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.digests[p.name] = digest.String()
	dir, err := os.MkdirTemp("", "slipway-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd takes the full reference from its own annotation
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          r.imageReference(p),
		"org.opencontainers.image.ref.name": r.version,
	}))
	if err != nil {
		return err
	}
	return archive(filepath.Join(r.assets(), p.name+"-image.tar"), dir, r.time)
}

// image holds the program alone: no shell, no libraries, no package manager.
func (r *release) image(p program, arch string) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary(p.name, platform{"linux", arch}))
	if err != nil {
		return nil, err
	}
	content, err := layerOf("manager", binary, r.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: arch,
		Created: v1.Time{Time: r.time},
		RootFS:  rootFS(layer),
		Config: v1.Config{
			User:       nobody,
			Entrypoint: []string{"/manager"},
			Labels: map[string]string{
				"org.opencontainers.image.source":  homepage,
				"org.opencontainers.image.title":   p.name,
				"org.opencontainers.image.version": r.version,
			},
		},
	})
}

func rootFS(layer v1.Layer) v1.RootFS {
	id, err := layer.DiffID()
	if err != nil {
		// the layer is in memory: its digest cannot fail
		panic(err)
	}
	return v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}}
}

func layerOf(name string, content []byte, modified time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o555, Size: int64(len(content)), ModTime: modified, Typeflag: tar.TypeReg})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// archive writes the files of a directory in the order of their names, with one
// time and one owner.
func archive(to, dir string, modified time.Time) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: modified, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
