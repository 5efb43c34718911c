package providercheck

import (
	"fmt"
	"strings"
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
		ID: "class-shared", Level: Should, Contract: "clusterctl provider contract, 5.2",
		Title:  "ClusterClasses share no objects",
		Remedy: "give each ClusterClass templates of its own: a change of a shared one reaches the Clusters of all",
		check: func(r *Release, found report) {
			owner := map[string]string{}
			for _, o := range objects(r.Classes) {
				key := o.Kind() + " " + o.Name()
				if first, ok := owner[key]; ok && first != o.File.Name {
					found(o.at(), fmt.Sprintf("%s is in %s, too", key, first))
					continue
				}
				owner[key] = o.File.Name
			}
		},
	},
}
