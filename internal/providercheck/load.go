package providercheck

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// Release is what a provider has released as one version, or one file of it.
type Release struct {
	// Place is where it was read: a directory, a file or a URL.
	Place string
	// Label of the provider, for example infrastructure-slipway, and Version. In a
	// repository of clusterctl they are the names of the directory and its parent.
	Label, Version string
	// Type and Name are the two parts of Label; both are empty when it has none.
	Type clusterctlv1.ProviderType
	Name string
	// Partial says that only a file was read: rules of the whole release are left out.
	Partial bool

	// Components, Metadata, Templates and Classes are the files of each sort, by
	// name. Alternatives are components beside the ones that clusterctl reads; Others are the
	// remaining YAML files. Of neither anything is read.
	Components, Metadata, Templates, Classes, Alternatives, Others []*File

	// components is made when it is looked up in first, and again after a file more.
	components *index
	// unreadable are findings made while loading.
	unreadable []Finding
	// now is the time of the check.
	now time.Time
	// roles are the CRDs that Cluster API works with, by the part that each plays.
	roles map[*Object]shape
}

// File is one YAML file.
type File struct {
	Name string
	// Raw is the content before variables were replaced.
	Raw []byte
	// Objects after variables were replaced, in order.
	Objects []*Object
	// Variables by name; the value is the default, nil when there is none.
	Variables map[string]*string

	// uses of variables, in order; dollars are the lines where clusterctl drops one.
	uses    []use
	dollars []int
	// first is the first line of each variable; inText says that it stands beside other text.
	first  map[string]int
	inText map[string]bool

	read   bool
	broken error
}

// types of providers by the prefix of their label, the longer ones first.
var types = []clusterctlv1.ProviderType{
	clusterctlv1.RuntimeExtensionProviderType, clusterctlv1.ControlPlaneProviderType, clusterctlv1.InfrastructureProviderType,
	clusterctlv1.BootstrapProviderType, clusterctlv1.AddonProviderType, clusterctlv1.IPAMProviderType,
}

// coreLabel is the label of the core provider, which has no prefix.
const coreLabel = "cluster-api"

func newRelease(ctx context.Context, place, label, version string, files []*File) (*Release, error) {
	r := &Release{Place: place, Label: label, Version: version, now: time.Now()}
	r.Type, r.Name = splitLabel(label)
	own := componentsFile(r.Type)
	for _, file := range files {
		kind := kindOf(file.Name)
		if kind == componentsFileKind && file.Name != own && hasFile(files, own) {
			kind = alternativeFileKind
		}
		if err := r.add(ctx, file, kind); err != nil {
			return nil, err
		}
	}
	r.roles = r.contractKinds()
	return r, nil
}

func hasFile(files []*File, name string) bool {
	return slices.ContainsFunc(files, func(f *File) bool { return f.Name == name })
}

func splitLabel(label string) (clusterctlv1.ProviderType, string) {
	if label == coreLabel {
		return clusterctlv1.CoreProviderType, label
	}
	for _, t := range types {
		if name, ok := strings.CutPrefix(label, clusterctlv1.ManifestLabel("", t)); ok {
			return t, name
		}
	}
	return "", ""
}

// fileKind is what a file is for, by its name.
type fileKind int

const (
	otherFile fileKind = iota
	componentsFileKind
	metadataFileKind
	templateFileKind
	classFileKind
	alternativeFileKind
)

func kindOf(name string) fileKind {
	switch {
	case name == metadataFile:
		return metadataFileKind
	case componentsName.MatchString(name):
		return componentsFileKind
	case name == defaultTemplate || strings.HasPrefix(name, templatePrefix):
		return templateFileKind
	case strings.HasPrefix(name, classPrefix):
		return classFileKind
	}
	return otherFile
}

// add reads a file and puts it where it belongs. It fails only when the context ends.
func (r *Release) add(ctx context.Context, f *File, kind fileKind) error {
	switch kind {
	case otherFile:
		r.Others = append(r.Others, f)
		return nil
	case alternativeFileKind:
		r.Alternatives = append(r.Alternatives, f)
		return nil
	case metadataFileKind:
		r.Metadata = append(r.Metadata, f)
	case componentsFileKind:
		r.Components, r.components = append(r.Components, f), nil
	case templateFileKind:
		r.Templates = append(r.Templates, f)
	case classFileKind:
		r.Classes = append(r.Classes, f)
	}
	if err := f.parse(ctx); err != nil {
		return err
	}
	if f.broken != nil {
		at := place{file: f.Name}
		if located, ok := errors.AsType[lineError](f.broken); ok {
			at.line = located.line
		}
		r.unreadable = append(r.unreadable, unreadable.finding(at, f.broken.Error()))
	}
	return nil
}

// Names of the files of a release, from the contract.
const (
	metadataFile    = "metadata.yaml"
	defaultTemplate = "cluster-template.yaml"
	templatePrefix  = "cluster-template-"
	classPrefix     = "clusterclass-"
)

// componentsName is that of a components file; what follows "components" is not recommended.
var componentsName = regexp.MustCompile(`-components(-[^/]*)?\.ya?ml$`)

// unreadable is the rule that Load itself applies.
var unreadable = Rule{
	ID: "file-readable", Level: Must, Contract: "clusterctl provider contract, 3 and 4",
	Title:  "Every file is YAML, before and after its variables are replaced",
	Remedy: "correct the YAML; clusterctl generate yaml --from FILE shows what clusterctl makes of it",
}

// parse reads a file once. An error is that of the context.
func (f *File) parse(ctx context.Context) error {
	if f.read {
		return nil
	}
	if f.broken = f.parseAs(ctx, kindOf(f.Name)); ctx.Err() != nil {
		return ctx.Err()
	}
	f.read = true
	return nil
}

func (f *File) parseAs(ctx context.Context, kind fileKind) error {
	if i := bytes.IndexByte(f.Raw, 0); i >= 0 {
		return lineError{line: bytes.Count(f.Raw[:i], []byte("\n")) + 1, err: errors.New("clusterctl ignores what follows a NUL byte")}
	}
	if kind == metadataFileKind {
		return f.metadata()
	}
	if err := f.variables(); err != nil {
		return err
	}
	text, err := process(f.Raw, f.sample)
	if err != nil {
		return err
	}
	f.Objects, err = f.objects(ctx, text)
	return err
}
