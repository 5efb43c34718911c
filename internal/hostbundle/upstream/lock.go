package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// lockFormat is the first field of a lock.
const lockFormat = "slipway.dev/host-bundle-lock/v1"

// Lock names all content of a host bundle of upstream's binaries by digests. Whoever trusts the
// lock need not trust what the content is fetched from.
type Lock struct {
	// Lock is the format.
	Lock string `json:"lock"`
	// Kubernetes is the version with a leading v.
	Kubernetes    string   `json:"kubernetes"`
	Architectures []string `json:"architectures"`
	Files         []File   `json:"files"`
	Images        []Image  `json:"images"`
}

// Verification says what a digest of a lock was compared with.
type Verification string

const (
	// VerifiedSignature means that upstream signed the content, and the signature was verified.
	VerifiedSignature Verification = "Signature"
	// VerifiedChecksum means that upstream names the digest over HTTPS, and signs nothing.
	VerifiedChecksum Verification = "Checksum"
)

// File is a program, or an archive of programs.
type File struct {
	Component    string        `json:"component"`
	Version      string        `json:"version"`
	Architecture string        `json:"architecture"`
	URL          string        `json:"url"`
	Size         int64         `json:"size"`
	Digest       digest.Digest `json:"digest"`
	Verified     Verification  `json:"verified"`
	// By is the signer, or the address of the checksum.
	By string `json:"by"`
}

// Image is an image for one architecture.
type Image struct {
	// Name as upstream publishes it, with the tag.
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	// Digest of the manifest, which the registry named.
	Digest   digest.Digest `json:"digest"`
	Verified Verification  `json:"verified"`
	// Manifest has the digests of all layers.
	Manifest string `json:"manifest"`
}

// ParseLock reads a lock as Lock.Marshal writes it. The error names each field that is wrong.
func ParseLock(data []byte) (*Lock, error) {
	l := &Lock{}
	if err := yaml.UnmarshalStrict(data, l); err != nil {
		return nil, fmt.Errorf("want what slipway-bundle lock writes: %w", err)
	}
	if l.Lock != lockFormat {
		return nil, fmt.Errorf("lock: want %s, not %q; write it by slipway-bundle lock", lockFormat, l.Lock)
	}
	return l, l.validate()
}

// Marshal writes the lock as YAML.
func (l *Lock) Marshal() ([]byte, error) { return yaml.Marshal(l) }

func (l *Lock) validate() error {
	var errs []error
	if semver.Canonical(l.Kubernetes) != l.Kubernetes || l.Kubernetes == "" {
		errs = append(errs, fmt.Errorf("kubernetes: want a version such as v1.36.5, not %q", l.Kubernetes))
	}
	for _, a := range l.Architectures {
		if _, known := machines[a]; !known {
			errs = append(errs, fmt.Errorf("architectures: %q is not one of %s", a, strings.Join(architectures(), ", ")))
		}
		errs = append(errs, l.complete(a))
	}
	for _, f := range l.Files {
		if f.Digest.Algorithm() != digest.SHA256 || f.Digest.Validate() != nil || f.Size <= 0 || !slices.Contains(l.Architectures, f.Architecture) {
			errs = append(errs, fmt.Errorf("files: %s: want a digest of %s, a size, and an architecture of the lock", f.URL, digest.SHA256))
		}
		if parsed, err := url.Parse(f.URL); err != nil || parsed.Host == "" || path.Clean(parsed.Path) != parsed.Path {
			errs = append(errs, fmt.Errorf("files: %q is not an address", f.URL))
		}
		if semver.Canonical(f.Version) != f.Version || f.Version == "" {
			errs = append(errs, fmt.Errorf("files: %s: want a version, not %q", f.URL, f.Version))
		}
	}
	for _, image := range l.Images {
		if _, err := image.blobs(); err != nil {
			errs = append(errs, fmt.Errorf("images: %s for %s: %w", image.Name, image.Architecture, err))
		}
	}
	return errors.Join(errs...)
}

// complete checks that a host of the architecture gets everything that it runs.
func (l *Lock) complete(architecture string) error {
	have := map[string]bool{}
	for _, f := range l.Files {
		if f.Architecture == architecture {
			have[f.Component] = true
			have[f.program()] = true
		}
	}
	var missing []string
	for _, want := range slices.Concat(kubernetesPrograms, []string{componentContainerd, componentRunc, componentCNI}) {
		if !have[want] {
			missing = append(missing, want)
		}
	}
	if l.pause(architecture) == "" {
		missing = append(missing, "the image of pause")
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: the lock lacks %s", architecture, strings.Join(missing, ", "))
	}
	return nil
}

// program is the name of a file that is a program.
func (f File) program() string { return path.Base(f.URL) }

// pause is the name of the image in which pods have their namespaces.
func (l *Lock) pause(architecture string) string {
	for _, image := range l.Images {
		if image.Architecture == architecture && image.shortName() == "pause" {
			return image.Name
		}
	}
	return ""
}

// split returns the registry with the repository, and the tag.
func (i Image) split() (repository, tag string) {
	at := strings.LastIndex(i.Name, ":")
	if at < 0 {
		return i.Name, ""
	}
	return i.Name[:at], i.Name[at+1:]
}

func (i Image) shortName() string {
	repository, _ := i.split()
	return path.Base(repository)
}

// blobs are the configuration and the layers of an image; the manifest is in the lock.
func (i Image) blobs() ([]ocispec.Descriptor, error) {
	if !taggedImage.MatchString(i.Name) {
		return nil, errors.New("want REGISTRY/REPOSITORY:TAG")
	}
	if i.Digest.Validate() != nil || i.Digest != i.Digest.Algorithm().FromString(i.Manifest) {
		return nil, fmt.Errorf("the manifest is not what the digest %s says", i.Digest)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal([]byte(i.Manifest), &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	all := slices.Concat([]ocispec.Descriptor{m.Config}, m.Layers)
	for _, d := range all {
		if d.Digest.Algorithm() != digest.SHA256 || d.Digest.Validate() != nil || d.Size <= 0 {
			return nil, fmt.Errorf("%q of %d bytes: want a digest of %s", d.Digest, d.Size, digest.SHA256)
		}
	}
	return all, nil
}

// Content is one thing to fetch.
type Content struct {
	// URL is where upstream has it.
	URL string
	// Path is where a mirror or a directory has it.
	Path   string
	Size   int64
	Digest digest.Digest

	// repository has it as a blob; empty for files.
	repository string
}

// Contents lists what a lock names, each once.
func (l *Lock) Contents() ([]Content, error) {
	var all []Content
	seen := map[digest.Digest]bool{}
	add := func(c Content) {
		if !seen[c.Digest] {
			seen[c.Digest] = true
			all = append(all, c)
		}
	}
	for _, f := range l.Files {
		c, err := f.content()
		if err != nil {
			return nil, err
		}
		add(c)
	}
	for _, image := range l.Images {
		contents, err := image.contents()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", image.Name, err)
		}
		for _, c := range contents {
			add(c)
		}
	}
	return all, nil
}

func (f File) content() (Content, error) {
	p, err := mirrored(f.URL)
	return Content{URL: f.URL, Path: p, Size: f.Size, Digest: f.Digest}, err
}

// contents are the configuration of an image, and its layers.
func (i Image) contents() ([]Content, error) {
	blobs, err := i.blobs()
	if err != nil {
		return nil, err
	}
	repository, _ := i.split()
	host, name, _ := strings.Cut(repository, "/")
	var all []Content
	for _, blob := range blobs {
		p := "v2/" + name + "/blobs/" + blob.Digest.String()
		all = append(all, Content{URL: "https://" + host + "/" + p, Path: host + "/" + p, Size: blob.Size, Digest: blob.Digest, repository: repository})
	}
	return all, nil
}

// mirrored is the path of an address in a mirror: its host, and its path there.
func mirrored(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		return "", fmt.Errorf("%q is not an address", address)
	}
	return parsed.Host + path.Clean("/"+parsed.Path), nil
}
