package providercheck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
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
	// name. Others are the remaining YAML files.
	Components, Metadata, Templates, Classes, Others []*File

	// unreadable are findings made while loading.
	unreadable []Finding
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
	// broken is why not all of it could be parsed.
	broken error
}

func newFile(name string, raw []byte) *File {
	f := &File{Name: name, Raw: raw}
	f.broken = f.parse()
	return f
}

// Object is one YAML document.
type Object struct {
	File *File
	Line int
	// Fields of the object.
	Fields map[string]any
	node   *yaml.Node
}

// types of providers by the prefix of their label, the longer ones first.
var types = []clusterctlv1.ProviderType{
	clusterctlv1.RuntimeExtensionProviderType, clusterctlv1.ControlPlaneProviderType, clusterctlv1.InfrastructureProviderType,
	clusterctlv1.BootstrapProviderType, clusterctlv1.AddonProviderType, clusterctlv1.IPAMProviderType,
}

// coreLabel is the label of the core provider, which has no prefix.
const coreLabel = "cluster-api"

func newRelease(place, label, version string, files []*File) *Release {
	r := &Release{Place: place, Label: label, Version: version}
	r.Type, r.Name = splitLabel(label)
	for _, file := range files {
		r.add(file, kindOf(file.Name))
	}
	return r
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

func (r *Release) add(f *File, kind fileKind) {
	if f.broken != nil {
		r.unreadable = append(r.unreadable, unreadable.finding(place{file: f.Name}, f.broken.Error()))
	}
	switch kind {
	case metadataFileKind:
		r.Metadata = append(r.Metadata, f)
	case componentsFileKind:
		r.Components = append(r.Components, f)
	case templateFileKind:
		r.Templates = append(r.Templates, f)
	case classFileKind:
		r.Classes = append(r.Classes, f)
	case otherFile:
		r.Others = append(r.Others, f)
	}
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

// parse replaces the variables as clusterctl does, then reads the documents.
func (f *File) parse() error {
	processor := yamlprocessor.NewSimpleProcessor()
	variables, err := processor.GetVariableMap(f.Raw)
	if err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	f.Variables = variables
	f.Objects, err = f.objects(f.sample)
	return err
}

// objects reads the documents with the values that variables have by a function.
func (f *File) objects(value func(variable string) (string, error)) (objects []*Object, err error) {
	text, err := yamlprocessor.NewSimpleProcessor().Process(f.Raw, value)
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return objects, err
		}
		if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
			continue
		}
		node := document.Content[0]
		fields := map[string]any{}
		if err := node.Decode(&fields); err != nil {
			return objects, fmt.Errorf("line %d: a document must be an object: %w", node.Line, err)
		}
		objects = append(objects, &Object{File: f, Line: node.Line, Fields: fields, node: node})
	}
}

// errDefault makes the processor take the default of a variable.
var errDefault = errors.New("the default is taken")

// sample gives variables without a default a value that fits where they stand.
func (f *File) sample(name string) (string, error) {
	if f.Variables[name] != nil {
		return "", errDefault
	}
	switch name {
	case "CLUSTER_NAME":
		return "cluster", nil
	case "NAMESPACE":
		return sampleNamespace, nil
	case "KUBERNETES_VERSION":
		return "v1.36.0", nil
	default:
		if f.alone(name) {
			return "", nil
		}
		return "1", nil
	}
}

// alone says whether a variable has a line of its own wherever it is used. There its value
// is a part of the document, which may be empty, and not the value of a field.
func (f *File) alone(name string) bool {
	uses := regexp.MustCompile(`(?m)^.*\$\{\s*`+regexp.QuoteMeta(name)+`\b.*$`).FindAll(f.Raw, -1)
	return !slices.ContainsFunc(uses, func(line []byte) bool { return !ownLine.Match(line) })
}

// ownLine is a line that has nothing but a variable.
var ownLine = regexp.MustCompile(`^\s*\$\{[^{}]*\}\s*$`)

// sampleNamespace stands for ${NAMESPACE}.
const sampleNamespace = "target-namespace"
