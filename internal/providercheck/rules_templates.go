package providercheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// commonVariables are those that clusterctl sets from flags and its argument.
var commonVariables = []string{"NAMESPACE", "CLUSTER_NAME", "KUBERNETES_VERSION", "CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"}

var templateRules = []Rule{
	{
		ID: "template-namespace", Level: Must, Contract: "clusterctl provider contract, 4.2",
		Title:  "A template makes no Namespace",
		Remedy: "remove the Namespace: the target namespace exists already",
		check: func(r *Release, found report) {
			for _, o := range of(slices.Concat(r.Templates, r.Classes), "Namespace") {
				found(o.at(), "the file makes a Namespace")
			}
		},
	},
	{
		ID: "template-one-namespace", Level: Must, Contract: "clusterctl provider contract, 4.2 and 7.2",
		Title:  "References of Cluster API's objects stay in the target namespace",
		Remedy: "remove the namespace of the reference, or set it to ${NAMESPACE}: clusterctl puts all objects into the target namespace, and leaves references alone",
		check:  func(r *Release, found report) { checkOneNamespace(r, found, true) },
	},
	{
		ID: "template-reference-namespace", Level: Should, Contract: "clusterctl provider contract, 4.2 and 7.2",
		Title:  "References of objects of an older version, and of other providers, stay in the target namespace, too",
		Remedy: "remove the namespace of the reference, or set it to ${NAMESPACE}: Cluster API looks in the object's own namespace, whatever the reference says",
		check:  func(r *Release, found report) { checkOneNamespace(r, found, false) },
	},
	{
		ID: "template-reference", Level: Must, Contract: "Cluster API, types of v1beta1 and v1beta2",
		Title:  "References of Cluster API's objects name a kind as the version of the object does",
		Remedy: "write apiGroup, which has no version, in objects of v1beta2, and apiVersion in those of v1beta1 and for the templates of a ClusterClass: the API server refuses others",
		check:  checkReferenceFields,
	},
	{
		ID: "template-fixed-namespace", Level: May, Contract: "clusterctl provider contract, 7.2",
		Title:  "A template leaves the namespace to its user",
		Remedy: "remove metadata.namespace, or set it to ${NAMESPACE}: clusterctl replaces it",
		check: func(r *Release, found report) {
			for _, f := range r.Templates {
				for _, o := range f.Objects {
					if ns := o.Namespace(); ns != "" && ns != sampleNamespace {
						found(o.at("metadata", "namespace"), fmt.Sprintf("the template names namespace %q", ns))
						break
					}
				}
			}
		},
	},
	{
		ID: "template-kind", Whole: true, Level: Must, Contract: "clusterctl provider contract, 4 and 7.3",
		Title:  "A template uses kinds that the provider has",
		Remedy: "correct kind or apiVersion, or add the CRD to the components: the API server refuses the object",
		check:  checkTemplateKinds,
	},
	{
		ID: "template-topology", Whole: true, Level: Must, Contract: "clusterctl provider contract, 4 and 5",
		Title:  "A topology uses what its ClusterClass has",
		Remedy: "correct the name, or add the worker class or variable to the ClusterClass: Cluster API refuses the Cluster",
		check:  checkTopology,
	},
	{
		ID: "template-cluster", Level: Should, Contract: "clusterctl provider contract, 4 and 4.3.1",
		Title:  "A template makes a Cluster that is called by ${CLUSTER_NAME}",
		Remedy: "name the Cluster ${CLUSTER_NAME}, which is the argument of clusterctl generate cluster",
		check: func(r *Release, found report) {
			for _, f := range r.Templates {
				clusters := slices.DeleteFunc(of([]*File{f}, "Cluster"), func(o *Object) bool { return o.Group() != clusterv1.GroupVersion.Group })
				if len(clusters) == 0 && f.broken == nil {
					found(place{file: f.Name}, "there is no Cluster")
				}
				named := func(o *Object) bool { return strings.Contains(o.Name(), "cluster") }
				if len(clusters) > 0 && (!hasVariable(f, "CLUSTER_NAME") || !slices.ContainsFunc(clusters, named)) {
					found(clusters[0].at("metadata", "name"), fmt.Sprintf("the Cluster is called %q", clusters[0].Name()))
				}
			}
		},
	},
	{
		ID: "template-version", Level: Should, Contract: "clusterctl provider contract, 4.3.1",
		Title:  "A template takes the Kubernetes version from ${KUBERNETES_VERSION}",
		Remedy: "use ${KUBERNETES_VERSION}, which --kubernetes-version sets",
		check: func(r *Release, found report) {
			for _, f := range r.Templates {
				if !hasVariable(f, "KUBERNETES_VERSION") && f.broken == nil {
					found(place{file: f.Name}, "the variable is not used")
				}
			}
		},
	},
	{
		ID: "template-variable-prefix", Level: May, Contract: "clusterctl provider contract, 3.4 and 4.3",
		Title:  "Variables of templates are common ones or begin with the provider's name",
		Remedy: "use clusterctl's common variable, or prefix it with the provider's name in capitals",
		check: func(r *Release, found report) {
			checkVariablePrefix(r, r.Templates, commonVariables, found)
		},
	},
	{
		ID: "template-strings", Level: Should, Contract: "clusterctl provider contract, 4.3.1",
		Title:  "A Cluster and a namespace may be called 1234 or true",
		Remedy: "put quotes around the value: names may consist of digits, and the API server refuses a number or a truth value where it wants a string",
		check: func(r *Release, found report) {
			for _, f := range r.Templates {
				checkStrings(f, found)
			}
		},
	},
	{
		ID: "template-links", Level: Must, Contract: "clusterctl provider contract, 4 and 7.3",
		Title:  "What a template refers to is in the template",
		Remedy: "add the object, or document who makes it: clusterctl applies only what the file holds",
		check: func(r *Release, found report) {
			for _, f := range slices.Concat(r.Templates, r.Classes) {
				checkReferences(f, found)
			}
		},
	},
	{
		ID: "template-class", Whole: true, Level: Must, Contract: "clusterctl provider contract, 5.1",
		Title:  "The ClusterClass of a template is in the release",
		Remedy: "release clusterclass-<name>.yaml with a ClusterClass of that name",
		check: func(r *Release, found report) {
			for _, o := range of(r.Templates, "Cluster") {
				class := className(o)
				// One in a file of another name is class-name's.
				named := func(c *Object) bool { return c.Name() == class }
				if class == "" || chosen(class) || slices.ContainsFunc(r.Classes, func(f *File) bool { return f.Name == classPrefix+class+".yaml" }) ||
					slices.ContainsFunc(of(append(slices.Clone(r.Classes), o.File), "ClusterClass"), named) {
					continue
				}
				found(o.at("spec", "topology"), fmt.Sprintf("there is no %s%s.yaml", classPrefix, class))
			}
		},
	},
}

// checkStrings finds strings of a template that are none when a variable has the value of a name
// that YAML reads as something else.
func checkStrings(f *File, found report) {
	for _, variable := range []string{"CLUSTER_NAME", "NAMESPACE"} {
		if !hasVariable(f, variable) {
			continue
		}
		text, err := process(f.Raw, func(name string) (string, error) {
			if name == variable {
				return "1234", nil
			}
			return f.sample(name)
		})
		if err != nil {
			continue // found by file-readable
		}
		objects, err := f.objects(context.Background(), text)
		if err != nil || len(objects) != len(f.Objects) {
			continue // found by file-readable
		}
		var places []place
		for i, o := range f.Objects {
			visit(o.Fields, nil, func(path []string, v any) {
				if _, isText := v.(string); !isText {
					return
				}
				if _, still := valueAt(objects[i].Fields, path).(string); !still {
					places = append(places, o.at(path...))
				}
			})
		}
		if len(places) > 0 {
			found(places[0], fmt.Sprintf("with %s 1234 this is a number, one of %d values of the file", variable, len(places)))
		}
	}
}

// className of a Cluster with a managed topology; older versions have class in
// place of classRef.
func className(o *Object) string {
	if name := text(o.Fields, "spec", "topology", "classRef", "name"); name != "" {
		return name
	}
	return text(o.Fields, "spec", "topology", "class")
}

func hasVariable(f *File, name string) bool {
	_, ok := f.Variables[name]
	return ok
}

// checkReferences looks for every reference of Cluster API's objects in the file.
func checkReferences(f *File, found report) {
	if f.broken != nil {
		return // what it refers to may be in the part that cannot be read
	}
	has := map[string]bool{}
	for _, o := range f.Objects {
		has[o.Group()+"/"+o.Kind()+"/"+o.Name()] = true
	}
	for _, o := range f.Objects {
		o.references(func(path []string, ref objectReference) {
			// One whose group has a version is template-reference's.
			if !chosen(ref.name) && !strings.Contains(ref.group, "/") && !has[ref.group+"/"+ref.kind+"/"+ref.name] {
				found(o.at(path...), fmt.Sprintf("%s %s is not in the file", ref.kind, ref.name))
			}
		})
	}
}
