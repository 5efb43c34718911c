package upstream

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
)

// containerdName is the annotation that gives an image its name on import.
const containerdName = "io.containerd.image.name"

// Pack writes the bundle of a lock. get returns the file that has a content; everything is
// compared with its digest again while it is packed.
func Pack(ctx context.Context, w *hostbundle.Writer, l *Lock, get func(context.Context, Content) (string, error)) error {
	dir, err := os.MkdirTemp("", "slipway-bundle-")
	if err != nil {
		return err
	}
	p := &packer{get: get, dir: dir}
	var contents []hostbundle.Contents
	packed := recipe.NewPacker(w)
	for _, architecture := range l.Architectures {
		var c hostbundle.Contents
		node, nodeErr := p.node(ctx, l, architecture)
		if err = nodeErr; err == nil {
			c, err = packed.Contents(node)
		}
		if err != nil {
			break
		}
		contents = append(contents, c)
	}
	if err == nil {
		err = w.Bundle(l.Kubernetes, contents...)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

type packer struct {
	get func(context.Context, Content) (string, error)
	dir string
}

func (p *packer) node(ctx context.Context, l *Lock, architecture string) (recipe.Node, error) {
	n := recipe.Node{Version: l.Kubernetes, Architecture: architecture, Pause: l.pause(architecture), Origin: hostbundle.OriginUpstream}
	at := map[string]int{}
	for _, f := range l.Files {
		if f.Architecture != architecture {
			continue
		}
		sources, err := p.programs(ctx, f)
		if err != nil {
			return n, err
		}
		if _, there := at[f.Component]; !there {
			at[f.Component] = len(n.Components)
			n.Components = append(n.Components, recipe.Part{Name: f.Component, Version: f.Version})
		}
		part := &n.Components[at[f.Component]]
		part.Sources = append(part.Sources, sources...)
	}
	for _, image := range l.Images {
		if image.Architecture != architecture {
			continue
		}
		file, err := p.archive(ctx, image)
		if err != nil {
			return n, err
		}
		_, tag := image.split()
		n.Images = append(n.Images, recipe.Part{Name: image.shortName(), Version: tag, Sources: []hostbundle.Source{{Path: "image.tar", From: file, Mode: 0o644}}})
	}
	return n, nil
}

func (p *packer) programs(ctx context.Context, f File) ([]hostbundle.Source, error) {
	c, err := f.content()
	if err != nil {
		return nil, err
	}
	file, err := p.get(ctx, c)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.dir, f.Architecture, f.Component, f.program())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return f.sources(file, dir)
}

// archive writes an OCI image layout with one image, as a tar archive.
func (p *packer) archive(ctx context.Context, image Image) (string, error) {
	contents, err := image.contents()
	if err != nil {
		return "", err
	}
	files := make([]string, len(contents))
	for i, c := range contents {
		if files[i], err = p.get(ctx, c); err != nil {
			return "", err
		}
	}
	if err := checkConfig(image, files[0]); err != nil {
		return "", err
	}
	name := filepath.Join(p.dir, image.Digest.Encoded()+"-"+digest.FromString(image.Name).Encoded()+".tar")
	to, err := os.Create(name)
	if err != nil {
		return "", err
	}
	err = writeArchive(tar.NewWriter(to), image, contents, files)
	if err = errors.Join(err, to.Close()); err != nil {
		return "", fmt.Errorf("image %s: %w", image.Name, err)
	}
	return name, nil
}

func writeArchive(to *tar.Writer, image Image, contents []Content, files []string) error {
	var manifest ocispec.Manifest
	if err := json.Unmarshal([]byte(image.Manifest), &manifest); err != nil {
		return err
	}
	mediaType := manifest.MediaType
	if mediaType == "" {
		mediaType = ocispec.MediaTypeImageManifest
	}
	index, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{{
		MediaType: mediaType, Digest: image.Digest, Size: int64(len(image.Manifest)), Annotations: map[string]string{containerdName: image.Name},
		Platform: &ocispec.Platform{OS: "linux", Architecture: image.Architecture},
	}}})
	if err != nil {
		return err
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	for _, document := range []struct {
		name string
		data []byte
	}{{ocispec.ImageLayoutFile, layout}, {ocispec.ImageIndexFile, index}, {blobPath(image.Digest), []byte(image.Manifest)}} {
		if err := add(to, document.name, int64(len(document.data)), bytes.NewReader(document.data)); err != nil {
			return err
		}
	}
	written := map[digest.Digest]bool{image.Digest: true}
	for i, c := range contents {
		if written[c.Digest] {
			continue
		}
		written[c.Digest] = true
		if err := addFile(to, c, files[i]); err != nil {
			return err
		}
	}
	return to.Close()
}

func addFile(to *tar.Writer, c Content, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	verifier := c.Digest.Verifier()
	if err := add(to, blobPath(c.Digest), c.Size, io.TeeReader(f, verifier)); err != nil {
		return err
	}
	if !verifier.Verified() {
		return fmt.Errorf("%s changed while it was read", file)
	}
	return nil
}

func add(to *tar.Writer, name string, size int64, content io.Reader) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := io.Copy(to, content)
	return err
}

func blobPath(d digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}
