package providercheck

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// get returns the value at a path of field names, or nil.
func get(fields any, path ...string) any {
	for _, name := range path {
		m, ok := fields.(map[string]any)
		if !ok {
			return nil
		}
		fields = m[name]
	}
	return fields
}

// valueAt is the value at a path that visit gave, which leads through lists, too.
func valueAt(v any, path []string) any {
	for _, name := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

func text(fields any, path ...string) string {
	s, _ := get(fields, path...).(string)
	return s
}

func list(fields any, path ...string) []any {
	l, _ := get(fields, path...).([]any)
	return l
}

func texts(fields any, path ...string) []string {
	var all []string
	for _, item := range list(fields, path...) {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// Kind of the object; empty when it has none, as with the others here.
func (o *Object) Kind() string { return text(o.Fields, "kind") }

// Name of the object.
func (o *Object) Name() string { return text(o.Fields, "metadata", "name") }

// Namespace of the object.
func (o *Object) Namespace() string { return text(o.Fields, "metadata", "namespace") }

// Group of the object's API.
func (o *Object) Group() string { return groupOf(text(o.Fields, "apiVersion")) }

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// at is the place of a field of the object, or of the nearest one above it that is
// there.
func (o *Object) at(path ...string) place {
	line, node := o.Line, o.node
	for _, name := range path {
		if node == nil {
			break
		}
		if node.Alias != nil {
			node = node.Alias
		}
		child := child(node, name)
		if child == nil {
			break
		}
		line, node = child.Line, child
	}
	return place{file: o.File.Name, line: line, object: strings.TrimSpace(o.Kind() + " " + o.Name())}
}

// child finds the value of a field, or the element of a list by its index.
func child(node *yaml.Node, name string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			if name == fmt.Sprint(i) {
				return item
			}
		}
	default:
		// scalars have no children
	}
	return nil
}

// of returns the objects of a kind.
func of(files []*File, kind string) []*Object {
	var found []*Object
	for _, o := range objects(files) {
		if o.Kind() == kind {
			found = append(found, o)
		}
	}
	return found
}

func objects(files []*File) []*Object {
	var all []*Object
	for _, f := range files {
		all = append(all, f.Objects...)
	}
	return all
}

// index has the objects of the components by what rules ask for, so that each of many objects is not compared
// with all others.
type index struct {
	// kinds are the objects of each kind, in order.
	kinds map[string][]*Object
	// names are the first objects of each kind and name, as in "Service foo".
	names map[string]*Object
	// namespaced says of a group and kind that a CRD defines, as in "foo.com Foo", whether its scope is Namespaced.
	namespaced map[string]bool
}

func (r *Release) indexed() *index {
	if r.components != nil {
		return r.components
	}
	x := &index{kinds: map[string][]*Object{}, names: map[string]*Object{}, namespaced: map[string]bool{}}
	for _, o := range objects(r.Components) {
		x.kinds[o.Kind()] = append(x.kinds[o.Kind()], o)
		if key := o.Kind() + " " + o.Name(); x.names[key] == nil && o.Name() != "" {
			x.names[key] = o
		}
	}
	for _, crd := range slices.Backward(x.kinds["CustomResourceDefinition"]) { // the first one of a kind counts
		x.namespaced[text(crd.Fields, "spec", "group")+" "+text(crd.Fields, "spec", "names", "kind")] = text(crd.Fields, "spec", "scope") == "Namespaced"
	}
	r.components = x
	return x
}

// crds returns the CRDs of the components.
func (r *Release) crds() []*Object { return r.indexed().kinds["CustomResourceDefinition"] }

// find returns the first object of a kind and name among the components, or nil.
func (r *Release) find(kind, name string) *Object { return r.indexed().names[kind+" "+name] }

// visit calls f for every value below v with its path, in a fixed order.
func visit(v any, path []string, f func(path []string, v any)) {
	f(path, v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			visit(v[name], append(slices.Clone(path), name), f)
		}
	case []any:
		for i, item := range v {
			visit(item, append(slices.Clone(path), fmt.Sprint(i)), f)
		}
	}
}
