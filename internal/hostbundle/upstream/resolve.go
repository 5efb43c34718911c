package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Signature is what upstream published beside a file, and what the file was signed as.
type Signature struct {
	// SHA256 of the file.
	SHA256 digest.Digest
	// Signature and Certificate as cosign writes them.
	Signature, Certificate []byte
}

// Resolver writes locks. It downloads each file, and keeps it for the build of the same lock.
type Resolver struct {
	Sources
	*Fetcher
	// Verify returns nil once Sources.Signer made the signature.
	Verify func(context.Context, Signature) error
	// ListImages runs `kubeadm config images list`.
	ListImages func(ctx context.Context, kubeadm, version string) ([]string, error)
	// Machine is the architecture whose kubeadm runs here.
	Machine string
}

// Lock resolves a request, and verifies all of it.
func (r *Resolver) Lock(ctx context.Context, request Request) (*Lock, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	l := &Lock{Lock: lockFormat, Kubernetes: request.Kubernetes, Architectures: request.Architectures}
	for _, w := range r.plan(request) {
		f, err := r.resolve(ctx, w)
		if err != nil {
			return nil, err
		}
		l.Files = append(l.Files, f)
	}
	names, err := r.images(ctx, request.Kubernetes)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(names, request.Images) {
		images, err := r.image(ctx, name, request.Architectures)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		l.Images = append(l.Images, images...)
	}
	return l, l.validate()
}

// resolve downloads one file, and compares it with what upstream says of it. A file that is not
// right is not kept.
func (r *Resolver) resolve(ctx context.Context, w wanted) (File, error) {
	f := File{Component: w.component, Version: w.version, Architecture: w.architecture, URL: w.url, Verified: VerifiedChecksum, By: w.checksum}
	list, err := r.small(ctx, w.checksum)
	if err != nil {
		return f, err
	}
	sum, err := checksumOf(list, path.Base(w.url), w.algorithm)
	if err != nil {
		return f, fmt.Errorf("%s: %w; is that what upstream has, or a page of a proxy?", w.checksum, err)
	}
	if f.Size, err = r.size(ctx, w.url); err != nil {
		return f, err
	}
	p, err := mirrored(w.url)
	if err != nil {
		return f, err
	}
	file, err := r.Get(ctx, Content{URL: w.url, Path: p, Size: f.Size, Digest: sum})
	if err != nil {
		return f, err
	}
	if f.Digest, err = r.check(ctx, w, &f, file); err != nil {
		return f, errors.Join(err, r.forget(sum))
	}
	return f, r.keep(file, f.Digest)
}

// check verifies what is more than a checksum, and returns the digest for the lock.
func (r *Resolver) check(ctx context.Context, w wanted, f *File, file string) (digest.Digest, error) {
	content, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = content.Close() }()
	sha256, err := digest.SHA256.FromReader(content)
	if err != nil {
		return "", err
	}
	if w.signature != "" {
		if err := r.signed(ctx, w, sha256); err != nil {
			return "", err
		}
		f.Verified, f.By = VerifiedSignature, r.Signer.String()
	}
	return sha256, r.unpackable(*f, file)
}

func (r *Resolver) signed(ctx context.Context, w wanted, sha256 digest.Digest) error {
	s := Signature{SHA256: sha256}
	var err error
	if s.Signature, err = r.small(ctx, w.signature); err != nil {
		return unsigned(w, err)
	}
	if s.Certificate, err = r.small(ctx, w.certificate); err != nil {
		return unsigned(w, err)
	}
	if err := r.Verify(ctx, s); err != nil {
		return fmt.Errorf("%s: the signature is not one of %s: %w; do not use the file: read it from upstream itself, and tell security@kubernetes.io if it is the same there", w.url, r.Signer, err)
	}
	return nil
}

func unsigned(w wanted, err error) error {
	var own *hostbundle.Error
	if errors.As(err, &own) && own.Reason == hostbundle.ReasonNotFound {
		return fmt.Errorf("%s has no signature: %w; Kubernetes signs each of its releases, so choose one, or a complete mirror", w.url, err)
	}
	return err
}

// unpackable tries what the build of the lock will do.
func (r *Resolver) unpackable(f File, file string) error {
	dir, err := os.MkdirTemp(r.Cache, "unpacked-")
	if err != nil {
		return err
	}
	_, err = f.sources(file, dir)
	return errors.Join(err, os.RemoveAll(dir))
}

// keep gives content the name under which Get finds it for a lock.
func (r *Resolver) keep(file string, as digest.Digest) error {
	if file == r.cached(as) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.cached(as)), 0o700); err != nil {
		return err
	}
	return durable.Rename(file, r.cached(as))
}

// images are those that kubeadm of the version names. Names are the same on all architectures, so
// the kubeadm that runs here is asked, which may be one that the lock does not have.
func (r *Resolver) images(ctx context.Context, version string) ([]string, error) {
	f, err := r.resolve(ctx, r.program(version, r.Machine, "kubeadm"))
	if err != nil {
		return nil, err
	}
	names, err := r.ListImages(ctx, r.cached(f.Digest), version)
	if err != nil {
		return nil, fmt.Errorf("%s config images list: %w", f.URL, err)
	}
	for _, name := range names {
		if !taggedImage.MatchString(name) {
			return nil, fmt.Errorf("%s config images list: want REGISTRY/REPOSITORY:TAG, not %q", f.URL, name)
		}
	}
	return names, nil
}

// RunKubeadm is ListImages by the program itself. It may not reach the network: the version is given.
func RunKubeadm(ctx context.Context, kubeadm, version string) ([]string, error) {
	// what is kept by its digest may not be executed in place
	content, err := os.ReadFile(kubeadm)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "slipway-bundle-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "kubeadm")
	if err := os.WriteFile(program, content, 0o700); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, program, "config", "images", "list", "--kubernetes-version", version).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.Fields(string(out)), err
}

// image resolves the tag of an image for each architecture.
func (r *Resolver) image(ctx context.Context, name string, architectures []string) ([]Image, error) {
	repository, tag := Image{Name: name}.split()
	registry, err := r.repository(repository)
	if err != nil {
		return nil, err
	}
	d, data, err := registry.Document(ctx, tag)
	if err != nil {
		return nil, err
	}
	var all []Image
	for _, a := range architectures {
		image := Image{Name: name, Architecture: a, Digest: d.Digest, Verified: VerifiedChecksum, Manifest: string(data)}
		if of, several := platform(data, a); several {
			if of == "" {
				return nil, fmt.Errorf("upstream has none for linux/%s; leave the architecture or the image out", a)
			}
			manifest, content, err := registry.Document(ctx, of.String())
			if err != nil {
				return nil, err
			}
			image.Digest, image.Manifest = manifest.Digest, string(content)
		}
		if err := r.checkPlatform(ctx, image); err != nil {
			return nil, err
		}
		all = append(all, image)
	}
	return all, nil
}

// platform finds the manifest for an architecture in an index; several is false for one that is none.
func platform(document []byte, architecture string) (of digest.Digest, several bool) {
	var index ocispec.Index
	if json.Unmarshal(document, &index) != nil || len(index.Manifests) == 0 {
		return "", false
	}
	for _, m := range index.Manifests {
		if m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == architecture {
			return m.Digest, true
		}
	}
	return "", true
}

// checkPlatform compares what an image says of itself.
func (r *Resolver) checkPlatform(ctx context.Context, image Image) error {
	contents, err := image.contents()
	if err != nil {
		return err
	}
	file, err := r.Get(ctx, contents[0])
	if err != nil {
		return err
	}
	return checkConfig(image, file)
}

// checkConfig holds that an image is one of Linux for its architecture.
func checkConfig(image Image, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config ocispec.Image
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("image %s: configuration: %w", image.Name, err)
	}
	if config.OS != "linux" || config.Architecture != image.Architecture {
		return fmt.Errorf("image %s is for %s/%s, and the lock wants linux/%s: the registry has another architecture's image in its place", image.Name, config.OS, config.Architecture, image.Architecture)
	}
	return nil
}
