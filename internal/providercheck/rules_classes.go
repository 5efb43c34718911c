package providercheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

var classRules = []Rule{
	{
		ID: "class-name", Level: Must, Contract: "clusterctl provider contract, 5.1",
		Title:  "clusterclass-<name>.yaml holds one ClusterClass of that name",
		Remedy: "rename the file or the ClusterClass, and give each ClusterClass a file: clusterctl finds it by the name of the file",
		check: func(r *Release, found report) {
			for _, f := range r.Classes {
				want := strings.TrimSuffix(strings.TrimPrefix(f.Name, classPrefix), ".yaml")
				classes := of([]*File{f}, "ClusterClass")
				if len(classes) != 1 && f.broken == nil {
					found(place{file: f.Name}, fmt.Sprintf("there are %d ClusterClasses", len(classes)))
				}
				for _, o := range classes {
					if o.Name() != want && !chosen(o.Name()) {
						found(o.at("metadata", "name"), fmt.Sprintf("the ClusterClass is called %q, not %q", o.Name(), want))
					}
				}
			}
		},
	},
	{
		ID: "class-reference-namespace", Level: Should, Contract: "clusterctl provider contract, 5.2",
		Title:  "References of a ClusterClass name no namespace",
		Remedy: "remove the namespace: the templates are in the ClusterClass's own",
		check: func(r *Release, found report) {
			for _, o := range of(r.Classes, "ClusterClass") {
				o.references(func(path []string, ref objectReference) {
					if ref.namespace != "" {
						found(o.at(append(path, "namespace")...), fmt.Sprintf("%s names namespace %q", strings.Join(path, "."), ref.namespace))
					}
				})
			}
		},
	},
	{
		ID: "class-namespace", Level: Should, Contract: "clusterctl provider contract, 5.2",
		Title:  "No object of a ClusterClass file names a namespace",
		Remedy: "remove metadata.namespace: clusterctl sets the target namespace",
		check: func(r *Release, found report) {
			for _, o := range objects(r.Classes) {
				if ns := o.Namespace(); ns != "" {
					found(o.at("metadata", "namespace"), fmt.Sprintf("namespace is %q", ns))
				}
			}
		},
	},
	{
		ID: "class-variables", Level: Should, Contract: "clusterctl provider contract, 5.3",
		Title:  "ClusterClass files have no environment variables",
		Remedy: "make it a variable of the ClusterClass, which every Cluster sets for itself",
		check: func(r *Release, found report) {
			for _, f := range r.Classes {
				for name := range f.Variables {
					found(place{file: f.Name, line: f.lineOf(name)}, fmt.Sprintf("the file uses ${%s}", name))
				}
			}
		},
	},
	{
		ID: "class-strings", Level: Should, Contract: "Cluster API book, ClusterClass patches",
		Title:  "Patches write the name of a Cluster or namespace as a string, also 1234 or true",
		Remedy: "write {{ .builtin.cluster.name | quote }}, or valueFrom.variable: Cluster API reads what a template becomes as YAML",
		check: func(r *Release, found report) {
			for _, o := range of(slices.Concat(r.Classes, r.Templates), "ClusterClass") {
				checkPatches(o, found)
			}
		},
	},
	{
		ID: "class-shared", Level: Should, Contract: "clusterctl provider contract, 5.2",
		Title:  "ClusterClasses share no objects",
		Remedy: "give each ClusterClass templates of its own: a change of a shared one reaches the Clusters of all",
		check: func(r *Release, found report) {
			owner := map[string]string{}
			for _, o := range objects(r.Classes) {
				key := o.Kind() + " " + o.Name()
				if chosen(o.Name()) {
					continue
				}
				if first, ok := owner[key]; ok && first != o.File.Name {
					found(o.at(), fmt.Sprintf("%s is in %s, too", key, first))
					continue
				}
				owner[key] = o.File.Name
			}
		},
	},
}

// Actions of the templates of patches: those that write a name as it is, those that write nothing, and all.
var (
	namingAction = regexp.MustCompile(`{{-?\s*\.builtin\.cluster\.(name|namespace)\s*-?}}`)
	silentAction = regexp.MustCompile(`{{-?\s*(/\*|if|else|end|range|with|define|block|template|break|continue|\$\w+\s*:?=)[^}]*}}`)
	anyAction    = regexp.MustCompile(`{{[^}]*}}`)
)

// checkPatches finds templates of a class's patches that write a number where a name is meant.
func checkPatches(o *Object, found report) {
	visit(get(o.Fields, "spec", "patches"), []string{"spec", "patches"}, func(path []string, v any) {
		template, isText := v.(string)
		if !isText || path[len(path)-1] != "template" || path[len(path)-2] != "valueFrom" || !namingAction.MatchString(template) {
			return
		}
		read := func(name string) (value any) {
			text := silentAction.ReplaceAllString(namingAction.ReplaceAllString(template, name), "")
			if yaml.Unmarshal([]byte(anyAction.ReplaceAllString(text, "x")), &value) != nil {
				return nil
			}
			return value
		}
		usual, odd := read("name"), read("1234")
		visit(usual, nil, func(at []string, v any) {
			if _, isText := v.(string); !isText {
				return
			}
			if _, isNumber := valueAt(odd, at).(float64); isNumber {
				found(o.at(path...), strings.Join(append(slices.Clone(path), at...), ".")+" is a number of a Cluster or namespace called 1234")
			}
		})
	})
}
