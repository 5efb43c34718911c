package providercheck

import (
	"fmt"
	"slices"
	"strings"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// checkOneNamespace finds references of Cluster API's objects that lead to another namespace.
// clusterctl sets the namespace of each object, and of no reference.
func checkOneNamespace(r *Release, found report, refused bool) {
	for _, o := range objects(r.Templates) {
		o.references(func(path []string, ref objectReference) {
			if o.localReferences() == refused && ref.namespace != "" && ref.namespace != sampleNamespace && !chosen(ref.namespace) {
				found(o.at(append(slices.Clone(path), "namespace")...), fmt.Sprintf("%s leads to namespace %q", strings.Join(path, "."), ref.namespace))
			}
		})
	}
}

// localReferences says that Cluster API's types leave no room for the namespace of a reference.
func (o *Object) localReferences() bool {
	return slices.Contains([]string{clusterv1.GroupVersion.String(), controlplanev1.GroupVersion.String()}, text(o.Fields, "apiVersion"))
}

// checkReferenceFields finds references that are written for another version of Cluster API.
func checkReferenceFields(r *Release, found report) {
	for _, o := range objects(slices.Concat(r.Templates, r.Classes)) {
		if !slices.Contains([]string{clusterv1.GroupVersion.Group, controlplanev1.GroupVersion.Group}, o.Group()) || o.Group() == controlplanev1.GroupVersion.Group && !strings.HasPrefix(o.Kind(), "Kubeadm") {
			continue // the types of another provider
		}
		o.references(func(path []string, ref objectReference) {
			field, value := "apiVersion", ref.apiVersion
			if o.localReferences() && slices.Contains([]string{"infrastructureRef", "controlPlaneRef", "configRef"}, path[len(path)-1]) {
				field, value = "apiGroup", ref.apiGroup
			}
			switch at := o.at(path...); {
			case value == "":
				found(at, fmt.Sprintf("%s has no %s", strings.Join(path, "."), field))
			case field == "apiGroup" && strings.Contains(value, "/"):
				found(at, fmt.Sprintf("%s: apiGroup %q has a version", strings.Join(path, "."), shortened(value)))
			}
		})
	}
}

// checkTemplateKinds finds objects of the provider's own API groups that no CRD serves.
func checkTemplateKinds(r *Release, found report) {
	groups, served := map[string]bool{}, map[string]bool{}
	for _, crd := range r.crds() {
		group := text(crd.Fields, "spec", "group")
		// Several providers define kinds of those groups; of the others only this one does.
		groups[group] = !slices.Contains(sharedGroups, group)
		for _, v := range list(crd.Fields, "spec", "versions") {
			if is, _ := get(v, "served").(bool); is {
				served[group+"/"+text(v, "name")+"/"+text(crd.Fields, "spec", "names", "kind")] = true
			}
		}
	}
	for _, o := range objects(slices.Concat(r.Templates, r.Classes)) {
		if apiVersion := text(o.Fields, "apiVersion"); groups[o.Group()] && !served[apiVersion+"/"+o.Kind()] {
			found(o.at("kind"), fmt.Sprintf("no CRD of the components serves %s %s", apiVersion, o.Kind()))
		}
	}
}

// sharedGroups are API groups in which other providers have kinds, too, which templates of
// an infrastructure provider use.
var sharedGroups = []string{"bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "addons.cluster.x-k8s.io", "ipam.cluster.x-k8s.io", clusterv1.GroupVersion.Group}

// checkTopology compares Clusters with the ClusterClasses of the release.
func checkTopology(r *Release, found report) {
	classes := map[string]*Object{}
	for _, o := range of(slices.Concat(r.Classes, r.Templates), "ClusterClass") {
		classes[o.Name()] = o
	}
	for _, o := range of(r.Templates, "Cluster") {
		class := classes[className(o)]
		// Which class a variable means is the user's choice, unless the template has it.
		for _, own := range of([]*File{o.File}, "ClusterClass") {
			if own.Name() == className(o) {
				class = own
			}
		}
		if class == nil || class.Name() == "" || chosen(class.Name()) && class.File != o.File {
			continue
		}
		for _, workers := range []string{"machineDeployments", "machinePools"} {
			has := map[string]bool{}
			for _, worker := range list(class.Fields, "spec", "workers", workers) {
				has[text(worker, "class")] = true
			}
			for i, worker := range list(o.Fields, "spec", "topology", "workers", workers) {
				if name := text(worker, "class"); !has[name] && !chosen(name) {
					found(o.at("spec", "topology", "workers", workers, fmt.Sprint(i), "class"),
						fmt.Sprintf("ClusterClass %s has no class %q of %s", class.Name(), name, workers))
				}
			}
		}
		checkTopologyVariables(o, class, found)
	}
}

// checkTopologyVariables finds variables that a ClusterClass lacks, and required ones that
// a Cluster lacks. A class with patches by extensions may have variables of theirs.
func checkTopologyVariables(o, class *Object, found report) {
	if slices.ContainsFunc(list(class.Fields, "spec", "patches"), func(p any) bool { return get(p, "external") != nil }) {
		return
	}
	has, set := map[string]bool{}, map[string]bool{}
	for _, variable := range list(class.Fields, "spec", "variables") {
		has[text(variable, "name")] = true
	}
	for i, variable := range list(o.Fields, "spec", "topology", "variables") {
		name := text(variable, "name")
		set[name] = true
		if !has[name] && !chosen(name) {
			found(o.at("spec", "topology", "variables", fmt.Sprint(i), "name"), fmt.Sprintf("ClusterClass %s has no variable %q", class.Name(), name))
		}
	}
	for _, variable := range list(class.Fields, "spec", "variables") {
		required, _ := get(variable, "required").(bool)
		if name := text(variable, "name"); required && !set[name] && get(variable, "schema", "openAPIV3Schema", "default") == nil {
			found(o.at("spec", "topology", "variables"), fmt.Sprintf("ClusterClass %s requires variable %q", class.Name(), name))
		}
	}
}
