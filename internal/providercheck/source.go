package providercheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// maxFile bounds a file of a release, in bytes. The largest components of a known
// provider have 2 MiB.
const maxFile = 32 << 20

// ErrNoRelease says that a place holds no release of a provider.
var ErrNoRelease = errors.New("no release of a provider: it has a components file, such as infrastructure-components.yaml, and metadata.yaml")

// Source is where releases are read from.
type Source struct {
	// Place is one of
	//
	//	<repository>/<type>-<name>/<version>  a release in a repository of clusterctl
	//	a directory                           the files of a release as a code host has them, of one provider or several
	//	a file                                the components, or a template: rules of the whole release are left out
	//	https://…                             a release on GitHub, or a components file with the others beside it
	Place string
	// Provider is the label of the provider, such as infrastructure-slipway. Default:
	// what the place or the objects' label cluster.x-k8s.io/provider says. Of several
	// providers, it chooses one.
	Provider string
	// Version of the release. Default: what the place says.
	Version string
	// Client makes the requests, over https only. Default: one that gives each file two
	// minutes.
	Client *http.Client
	// GitHubAPI is the URL of GitHub's API. Default: https://api.github.com.
	GitHubAPI string
	// GitHubToken, when set, is sent to GitHubAPI and nowhere else.
	GitHubToken string
}

// Releases reads the place. There is one release for each provider in it, in the order of
// their components files.
func (s Source) Releases(ctx context.Context) ([]*Release, error) {
	if strings.Contains(s.Place, "://") {
		return s.remote(ctx)
	}
	info, err := os.Stat(s.Place)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return s.file(ctx)
	}
	dir, files, err := readDir(s.Place)
	if err != nil {
		return nil, err
	}
	version := ""
	if _, err := utilversion.ParseSemantic(filepath.Base(dir)); err == nil {
		version = filepath.Base(dir)
	}
	labelled, _ := splitLabel(filepath.Base(filepath.Dir(dir)))
	if labelled != "" || version != "" && len(ofTypes(files)) <= 1 {
		label := cmp.Or(s.Provider, filepath.Base(filepath.Dir(dir)))
		return single(newRelease(ctx, dir, label, cmp.Or(s.Version, filepath.Base(dir)), files))
	}
	return s.split(ctx, dir, version, files)
}

func single(r *Release, err error) ([]*Release, error) {
	if err != nil {
		return nil, err
	}
	return []*Release{r}, nil
}

// readDir reads the YAML files of a directory, and returns its absolute name.
func readDir(dir string) (string, []*File, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	var files []*File
	for _, entry := range entries {
		if entry.IsDir() || !isYAML(entry.Name()) {
			continue
		}
		file, err := readFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return "", nil, fmt.Errorf("%s: %w", dir, ErrNoRelease)
	}
	return dir, files, nil
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func readFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readBounded(path, f)
	if err != nil {
		return nil, err
	}
	return &File{Name: filepath.Base(path), Raw: data}, nil
}

func readBounded(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes: not a file of a provider", name, maxFile)
	}
	return data, nil
}

// componentsTypes are the types of providers by the beginning of the name of their
// components file.
var componentsTypes = []clusterctlv1.ProviderType{
	clusterctlv1.CoreProviderType, clusterctlv1.BootstrapProviderType, clusterctlv1.ControlPlaneProviderType,
	clusterctlv1.InfrastructureProviderType, clusterctlv1.IPAMProviderType, clusterctlv1.RuntimeExtensionProviderType,
	clusterctlv1.AddonProviderType,
}

// typeOfComponents returns the type of provider that a components file is named by, or
// nothing. A code host's releases have files for other tools beside them, such as
// cluster-api-components.yaml.
func typeOfComponents(name string) clusterctlv1.ProviderType {
	if kindOf(name) != componentsFileKind {
		return ""
	}
	for _, t := range componentsTypes {
		prefix, _, _ := strings.Cut(componentsFile(t), ".")
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && (strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, ".")) {
			return t
		}
	}
	return ""
}

// ofTypes returns the types of providers that files have components of.
func ofTypes(files []*File) []clusterctlv1.ProviderType {
	var types []clusterctlv1.ProviderType
	for _, file := range files {
		if t := typeOfComponents(file.Name); t != "" && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// split makes a release for each provider that has components among the files. Templates
// and ClusterClasses are those of the infrastructure provider; files that clusterctl does
// not read belong to nobody.
func (s Source) split(ctx context.Context, place, version string, files []*File) ([]*Release, error) {
	version = cmp.Or(s.Version, version)
	if version == "" {
		return nil, fmt.Errorf("%s does not tell the version of the release: give it by --release, for example --release v0.1.0", place)
	}
	var labels []string
	own := map[string][]*File{}
	for _, file := range files {
		t := typeOfComponents(file.Name)
		if t == "" || file.Name != componentsFile(t) && hasFile(files, componentsFile(t)) {
			continue
		}
		if err := file.parse(ctx); err != nil {
			return nil, err
		}
		label, err := s.labelOf(file, t)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
		own[label] = append(own[label], file)
	}
	if s.Provider != "" {
		labels = slices.DeleteFunc(labels, func(label string) bool { return label != s.Provider })
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s: %w%s", place, ErrNoRelease, noneOf(s.Provider))
	}
	releases := make([]*Release, 0, len(labels))
	for _, label := range labels {
		t, _ := splitLabel(label)
		r, err := newRelease(ctx, place, label, version, append(own[label], shared(files, t)...))
		if err != nil {
			return nil, err
		}
		releases = append(releases, r)
	}
	return releases, nil
}

func noneOf(provider string) string {
	if provider == "" {
		return ""
	}
	return ", and none of " + provider + " is here"
}

// shared are the files that are no components, as far as a provider of a type has them.
func shared(files []*File, t clusterctlv1.ProviderType) []*File {
	var found []*File
	for _, file := range files {
		switch kindOf(file.Name) {
		case metadataFileKind:
			found = append(found, file)
		case templateFileKind, classFileKind:
			if t == clusterctlv1.InfrastructureProviderType {
				found = append(found, file)
			}
		case componentsFileKind, alternativeFileKind, otherFile:
		}
	}
	return found
}

// labelOf a provider of a type whose components are in a file: what the caller says, if
// that is of the type, or the label that most objects have.
func (s Source) labelOf(file *File, t clusterctlv1.ProviderType) (string, error) {
	if asked, _ := splitLabel(s.Provider); asked == t {
		return s.Provider, nil
	}
	if t == clusterctlv1.CoreProviderType {
		return coreLabel, nil
	}
	label := commonLabel([]*File{file})
	if found, _ := splitLabel(label); found != t {
		if s.Provider != "" {
			return "", nil
		}
		return "", fmt.Errorf("%s does not tell whose it is by the label %s: give --provider, for example --provider %s",
			file.Name, clusterv1.ProviderNameLabel, clusterctlv1.ManifestLabel("foo", t))
	}
	return label, nil
}

// commonLabel is the provider's label that most objects have.
func commonLabel(files []*File) string {
	counts, most := map[string]int{}, ""
	for _, o := range objects(files) {
		label := text(o.Fields, "metadata", "labels", clusterv1.ProviderNameLabel)
		if label == "" {
			continue
		}
		if counts[label]++; counts[label] > counts[most] {
			most = label
		}
	}
	return most
}

// file reads one file, which is no whole release.
func (s Source) file(ctx context.Context) ([]*Release, error) {
	file, err := readFile(s.Place)
	if err != nil {
		return nil, err
	}
	r, err := newRelease(ctx, s.Place, "", s.Version, nil)
	if err != nil {
		return nil, err
	}
	r.Partial, r.roles = true, nil
	kind := kindOf(file.Name)
	if kind == otherFile {
		if err := file.parse(ctx); err != nil {
			return nil, err
		}
		kind = kindByContent(file)
	}
	if err := r.add(ctx, file, kind); err != nil {
		return nil, err
	}
	r.Label = cmp.Or(s.Provider, commonLabel([]*File{file}))
	if r.Label == "" && kind == componentsFileKind {
		if r.Label, err = s.labelOf(file, cmp.Or(typeOfComponents(file.Name), clusterctlv1.InfrastructureProviderType)); err != nil {
			return nil, err
		}
	}
	r.Type, r.Name = splitLabel(r.Label)
	return []*Release{r}, nil
}

// kindByContent is what a file is for whose name does not tell.
func kindByContent(file *File) fileKind {
	files := []*File{file}
	switch {
	case file.broken != nil:
		return componentsFileKind
	case len(of(files, "Metadata")) > 0:
		return metadataFileKind
	case len(of(files, "CustomResourceDefinition")) > 0, len(of(files, "Deployment")) > 0:
		return componentsFileKind
	case len(of(files, "Cluster")) == 0 && len(of(files, "ClusterClass")) > 0:
		return classFileKind
	}
	return templateFileKind
}
