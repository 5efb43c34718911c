package providercheck

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// builtinKinds is the discovery data of the Kubernetes version that Slipway is built from: group and
// version, kind and scope, one kind a line.
//
//go:embed builtin-kinds.txt
var builtinKinds string

// builtin is what Kubernetes itself serves.
type builtin struct {
	// groups, "" among them.
	groups map[string]bool
	// versions of groups and kinds, as in "apps/v1 Deployment".
	versions map[string]bool
	// namespaced has kinds by their group, as in "apps Deployment".
	namespaced map[string]bool
}

var kubernetes = sync.OnceValue(func() builtin {
	b := builtin{groups: map[string]bool{}, versions: map[string]bool{}, namespaced: map[string]bool{}}
	for line := range strings.Lines(builtinKinds) {
		fields := strings.Fields(line) // the group of v1 is empty
		group, version, _ := strings.Cut(fields[0], "/")
		b.groups[group] = true
		b.versions[strings.TrimPrefix(group+"/"+version, "/")+" "+fields[1]] = true
		b.namespaced[group+" "+fields[1]] = fields[2] == "Namespaced"
	}
	return b
})

// namespaced says whether an object of the components belongs to a namespace, as far as the CRDs
// and the kinds of Kubernetes say; of another project's kinds nothing is known.
func (r *Release) namespaced(o *Object) (is, known bool) {
	if is, known = r.indexed().namespaced[o.Group()+" "+o.Kind()]; known {
		return is, true
	}
	is, known = kubernetes().namespaced[o.Group()+" "+o.Kind()]
	return is, known
}

// shape is the part a kind plays in the contracts. Providers name kinds by it:
// <env>Cluster, <env>MachinePool and so on.
type shape string

const (
	other                shape = ""
	cluster              shape = "Cluster"
	machine              shape = "Machine"
	machinePool          shape = "MachinePool"
	config               shape = "Config"
	controlPlane         shape = "ControlPlane"
	clusterTemplate      shape = "ClusterTemplate"
	machineTemplate      shape = "MachineTemplate"
	machinePoolTemplate  shape = "MachinePoolTemplate"
	configTemplate       shape = "ConfigTemplate"
	controlPlaneTemplate shape = "ControlPlaneTemplate"
)

// template of a shape.
func (s shape) template() shape { return s + "Template" }

// shapesOf are those that Cluster API reads of a type of provider, the longer names first. A kind
// of such a name in another type's release is the provider's own.
var shapesOf = map[clusterctlv1.ProviderType][]shape{
	clusterctlv1.InfrastructureProviderType: {machinePool, machine, cluster},
	clusterctlv1.BootstrapProviderType:      {config},
	clusterctlv1.ControlPlaneProviderType:   {controlPlane},
}

// marks are fields by which a kind of each shape is known.
var marks = map[shape][]string{
	cluster:      {"spec.controlPlaneEndpoint"},
	machine:      {"spec.providerID"},
	machinePool:  {"spec.providerIDList"},
	config:       {"status.dataSecretName"},
	controlPlane: {"status.initialized", "status.initialization.controlPlaneInitialized"},
}

// made are the shapes that core makes from a template. A kind of such a name without a
// template, as RoleConfig or PooledMachine, is the provider's own business.
var made = []shape{machine, config, controlPlane}

// withStatus are the shapes whose status core reads.
var withStatus = []shape{cluster, machine, machinePool, config, controlPlane}

// shapeOf a kind by its name.
func (r *Release) shapeOf(kind string) shape {
	for _, s := range shapesOf[r.Type] {
		if strings.HasSuffix(kind, string(s)) && kind != string(s) {
			return s
		}
	}
	return other
}

// contractKinds are the CRDs that Cluster API works with. A name decides little, and so does a
// label, which kustomize puts on all: a kind counts that a template refers to from an object of
// Cluster API, or that has a field of its contract or a template. When there is none, the labelled
// ones count, or all of that name.
func (r *Release) contractKinds() map[*Object]shape {
	if r.roles != nil {
		return r.roles
	}
	r.roles = map[*Object]shape{}
	byKind := map[string]*Object{}
	for _, crd := range r.crds() {
		byKind[text(crd.Fields, "spec", "names", "kind")] = crd
	}
	referred := map[string]bool{}
	for _, o := range objects(slices.Concat(r.Templates, r.Classes)) {
		o.references(func(_ []string, ref objectReference) { referred[strings.TrimSuffix(ref.kind, "Template")] = true })
	}
	for _, s := range shapesOf[r.Type] {
		var certain, labelled, all []*Object
		for _, crd := range r.crds() {
			kind := text(crd.Fields, "spec", "names", "kind")
			template := byKind[kind+"Template"] != nil
			if r.shapeOf(kind) != s || slices.Contains(made, s) && !template {
				continue
			}
			all = append(all, crd)
			if len(contractsOf(crd)) > 0 {
				labelled = append(labelled, crd)
			}
			if referred[kind] || template && s != config || hasField(crd, marks[s]) {
				certain = append(certain, crd)
			}
		}
		for _, crd := range firstOf(certain, labelled, all) {
			r.roles[crd] = s
			if template := byKind[text(crd.Fields, "spec", "names", "kind")+"Template"]; template != nil {
				r.roles[template] = s.template()
			}
		}
	}
	return r.roles
}

func firstOf(lists ...[]*Object) []*Object {
	for _, list := range lists {
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

func hasField(crd *Object, paths []string) bool {
	for _, v := range list(crd.Fields, "spec", "versions") {
		for _, path := range paths {
			if (field{path: path}).in(get(v, "schema", "openAPIV3Schema")) != nil {
				return true
			}
		}
	}
	return false
}

// eachContractCRD calls f for the kinds of a provider that core works with.
func eachContractCRD(r *Release, f func(*Object, shape)) {
	roles := r.contractKinds()
	for _, crd := range r.crds() {
		if s := roles[crd]; s != other {
			f(crd, s)
		}
	}
}

// objectReference is one of a Cluster API object to another.
type objectReference struct {
	// apiGroup and apiVersion are as they are written; group is that of either.
	apiGroup, apiVersion, group, kind, name, namespace string
}

// referenceFields are the fields of core types that refer to an object of the same
// file.
var referenceFields = []string{"infrastructureRef", "controlPlaneRef", "configRef", "templateRef", "ref"}

// machinesOf are the paths of a control plane, and of its template, to the reference that its
// contract defines.
var machinesOf = [][]string{
	{"spec", "machineTemplate", "infrastructureRef"}, {"spec", "machineTemplate", "spec", "infrastructureRef"},
	{"spec", "template", "spec", "machineTemplate", "infrastructureRef"},
}

// references calls f for the references that Cluster API follows. A provider's own kinds may refer
// to whatever they like.
func (o *Object) references(f func(path []string, ref objectReference)) {
	report := func(path []string, v any) {
		ref := objectReference{apiGroup: text(v, "apiGroup"), apiVersion: text(v, "apiVersion"), kind: text(v, "kind"), name: text(v, "name"), namespace: text(v, "namespace")}
		ref.group = cmp.Or(ref.apiGroup, groupOf(ref.apiVersion))
		if ref.kind != "" && ref.name != "" {
			f(path, ref)
		}
	}
	switch {
	case o.Group() == clusterv1.GroupVersion.Group:
		visit(get(o.Fields, "spec"), []string{"spec"}, func(path []string, v any) {
			// Values of variables and patches are the user's own.
			if !slices.Contains(path, "variables") && !slices.Contains(path, "patches") && slices.Contains(referenceFields, path[len(path)-1]) {
				report(path, v)
			}
		})
	case strings.HasSuffix(strings.TrimSuffix(o.Kind(), "Template"), string(controlPlane)):
		for _, path := range machinesOf {
			report(path, get(o.Fields, path...))
		}
	}
}
