package providercheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"
)

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

// shapes, so that no suffix hides a longer one.
var shapes = []shape{
	machinePoolTemplate, machineTemplate, clusterTemplate, configTemplate, controlPlaneTemplate,
	machinePool, machine, cluster, config, controlPlane,
}

// made are the shapes that core makes from a template. A kind of such a name without a
// template, as RoleConfig or PooledMachine, is the provider's own business.
var made = []shape{machine, config, controlPlane}

// withStatus are the shapes whose status core reads.
var withStatus = []shape{cluster, machine, machinePool, config, controlPlane}

// contractLabel is the prefix of the labels that map contracts to versions.
const contractLabel = "cluster.x-k8s.io/"

// shapeOf a CRD, by its kind.
func shapeOf(kind string) shape {
	for _, s := range shapes {
		if strings.HasSuffix(kind, string(s)) && kind != string(s) {
			return s
		}
	}
	return other
}

// contractTypes are the types of providers whose kinds core works with.
var contractTypes = []clusterctlv1.ProviderType{
	clusterctlv1.InfrastructureProviderType, clusterctlv1.BootstrapProviderType, clusterctlv1.ControlPlaneProviderType,
}

// eachContractCRD calls f for the kinds of a provider that core works with.
func eachContractCRD(r *Release, f func(*Object, shape)) {
	if !slices.Contains(contractTypes, r.Type) {
		return
	}
	kinds := map[string]bool{}
	for _, crd := range r.crds() {
		kinds[text(crd.Fields, "spec", "names", "kind")] = true
	}
	for _, crd := range r.crds() {
		kind := text(crd.Fields, "spec", "names", "kind")
		s := shapeOf(kind)
		if s == other || slices.Contains(made, s) && !kinds[kind+"Template"] {
			continue
		}
		f(crd, s)
	}
}

// versionsOf maps each contract of a CRD's labels to the versions of its value.
func versionsOf(crd *Object) map[string][]string {
	byContract := map[string][]string{}
	labels, _ := get(crd.Fields, "metadata", "labels").(map[string]any)
	for name, value := range labels {
		if c, ok := strings.CutPrefix(name, contractLabel); ok && slices.Contains(contracts, c) {
			versions, _ := value.(string)
			byContract[c] = strings.Split(versions, "_")
		}
	}
	return byContract
}

// findVersion finds a served or unserved version of a CRD and its index.
func findVersion(crd *Object, name string) (int, any) {
	for i, v := range list(crd.Fields, "spec", "versions") {
		if text(v, "name") == name {
			return i, v
		}
	}
	return -1, nil
}

var crdRules = []Rule{
	{
		ID: "crd-name", Level: Must, Contract: "InfraMachinePool contract, resource definition; InfraCluster specification, 2.1",
		Title:  "A CRD has the name that CalculateCRDName gives its group and kind",
		Remedy: "name the CRD and its plural so: core finds the contract's labels by that name and not by a lookup",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if want := contract.CalculateCRDName(text(o.Fields, "spec", "group"), text(o.Fields, "spec", "names", "kind")); o.Name() != want {
					found(o.at("metadata", "name"), fmt.Sprintf("the name must be %s", want))
				}
			})
		},
	},
	{
		ID: "crd-scope", Level: Must, Contract: "InfraMachinePool contract, scope; InfraCluster specification, 3",
		Title:  "What core works with is namespaced",
		Remedy: "set spec.scope: Namespaced",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if scope := text(o.Fields, "spec", "scope"); scope != "Namespaced" {
					found(o.at("spec", "scope"), fmt.Sprintf("scope is %s", scope))
				}
			})
		},
	},
	{
		ID: "crd-list-kind", Level: Must, Contract: "InfraMachinePool contract, resource definition; InfraCluster specification, list resources",
		Title:  "The list of a kind is called <Kind>List",
		Remedy: "set spec.names.listKind so",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if got, want := text(o.Fields, "spec", "names", "listKind"), text(o.Fields, "spec", "names", "kind")+"List"; got != want {
					found(o.at("spec", "names", "listKind"), fmt.Sprintf("listKind is %q, not %q", got, want))
				}
			})
		},
	},
	{
		ID: "crd-contract-label", Level: Must, Contract: "InfraMachinePool contract, version",
		Title:  "A label says which versions of the CRD have which contract",
		Remedy: "label the CRD cluster.x-k8s.io/<contract>: <version>, several versions joined by '_', in config/crd/kustomization.yaml",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if len(versionsOf(o)) == 0 {
					found(o.at("metadata", "labels"), "there is no label "+contractLabel+"<contract>")
				}
			})
		},
	},
	{
		ID: "crd-contract-version", Level: Must, Contract: "InfraMachinePool contract, version",
		Title:  "Every version that a contract label names is served",
		Remedy: "name a version of spec.versions that has served: true",
		check: func(r *Release, found report) {
			for _, o := range r.crds() {
				byContract := versionsOf(o)
				for _, c := range slices.Sorted(maps.Keys(byContract)) {
					for _, name := range byContract[c] {
						_, v := findVersion(o, name)
						if served, _ := get(v, "served").(bool); !served {
							found(o.at("metadata", "labels", contractLabel+c), fmt.Sprintf("version %q of contract %s is not served", name, c))
						}
					}
				}
			}
		},
	},
	{
		ID: "crd-machine-template", Level: Must, Contract: "InfraMachine contract, InfraMachineTemplate",
		Title:  "Machines have a template",
		Remedy: "add a CRD <Kind>Template: control planes and MachineDeployments make their machines from it",
		check:  checkMachineTemplate,
	},
	{
		ID: "crd-contract-series", Whole: true, Level: Must, Contract: "clusterctl provider contract, 2; InfraMachinePool contract, version",
		Title:  "CRDs have the contract that metadata.yaml gives this release",
		Remedy: "label the CRD with that contract, or correct metadata.yaml: core refuses objects of a contract without a label",
		check:  checkContractOfSeries,
	},
	{
		ID: "crd-storage", Level: Must, Contract: "Kubernetes, CustomResourceDefinition",
		Title:  "One version is stored",
		Remedy: "set storage: true on exactly one of spec.versions",
		check: func(r *Release, found report) {
			for _, o := range r.crds() {
				stored := 0
				for _, v := range list(o.Fields, "spec", "versions") {
					if storage, _ := get(v, "storage").(bool); storage {
						stored++
					}
				}
				if stored != 1 {
					found(o.at("spec", "versions"), fmt.Sprintf("%d versions are stored", stored))
				}
			}
		},
	},
	{
		ID: "crd-conversion", Level: Should, Contract: "Kubernetes API deprecation policy; InfraMachinePool contract, version",
		Title:  "A CRD with several served versions converts by webhook",
		Remedy: "add spec.conversion with strategy Webhook, unless the schemas of all versions are the same",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				served := 0
				for _, v := range list(o.Fields, "spec", "versions") {
					if is, _ := get(v, "served").(bool); is {
						served++
					}
				}
				if served > 1 && text(o.Fields, "spec", "conversion", "strategy") != "Webhook" {
					found(o.at("spec", "conversion"), fmt.Sprintf("%d versions are served, and none is converted", served))
				}
			})
		},
	},
	{
		ID: "crd-status", Level: Must, Contract: "InfraMachinePool contract, resource definition",
		Title:  "Status is a subresource",
		Remedy: "add subresources: {status: {}} to the version (+kubebuilder:subresource:status)",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, s shape) {
				if !slices.Contains(withStatus, s) {
					return
				}
				for i, v := range list(o.Fields, "spec", "versions") {
					if get(v, "subresources", "status") == nil {
						found(o.at("spec", "versions", fmt.Sprint(i)), fmt.Sprintf("version %s has no status subresource", text(v, "name")))
					}
				}
			})
		},
	},
}

// checkMachineTemplate finds a provider of clusters that core cannot make machines for.
func checkMachineTemplate(r *Release, found report) {
	if r.Type != clusterctlv1.InfrastructureProviderType {
		return
	}
	var machines []*Object
	for _, crd := range r.crds() {
		s := shapeOf(text(crd.Fields, "spec", "names", "kind"))
		if s == machineTemplate {
			return
		}
		if s == machine {
			machines = append(machines, crd)
		}
	}
	for _, crd := range machines {
		found(crd.at("spec", "names", "kind"), fmt.Sprintf("there is no %sTemplate", text(crd.Fields, "spec", "names", "kind")))
	}
}

func checkContractOfSeries(r *Release, found report) {
	c := r.contract()
	if c == "" {
		return
	}
	eachContractCRD(r, func(o *Object, _ shape) {
		if byContract := versionsOf(o); len(byContract) > 0 && len(byContract[c]) == 0 {
			found(o.at("metadata", "labels"), fmt.Sprintf("there is no label %s%s", contractLabel, c))
		}
	})
}

// contract that metadata.yaml gives the release, or "".
func (r *Release) contract() string {
	for _, o := range objects(r.Metadata) {
		for _, series := range list(o.Fields, "releaseSeries") {
			if strings.HasPrefix(strings.TrimPrefix(r.Version, "v"), seriesName(series)+".") {
				return text(series, "contract")
			}
		}
	}
	return ""
}
