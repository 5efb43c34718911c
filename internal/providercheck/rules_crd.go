package providercheck

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	k8sversion "k8s.io/apimachinery/pkg/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"
)

// contractLabel is the prefix of the labels that map contracts to versions.
const contractLabel = "cluster.x-k8s.io/"

// labelsOf are the contracts that a CRD's labels name, with their values.
func labelsOf(crd *Object) map[string]string {
	byContract := map[string]string{}
	labels, _ := get(crd.Fields, "metadata", "labels").(map[string]any)
	for name, value := range labels {
		if c, ok := strings.CutPrefix(name, contractLabel); ok && slices.Contains(contracts, c) {
			byContract[c], _ = value.(string)
		}
	}
	return byContract
}

// contractsOf are the contracts of a CRD's labels that Cluster API works with, the newest first, as
// far as they have a value.
func contractsOf(crd *Object) []string {
	labels := labelsOf(crd)
	var found []string
	for _, c := range servedContracts {
		if labels[c] != "" {
			found = append(found, c)
		}
	}
	slices.Reverse(found)
	return found
}

// chosenVersion is what Cluster API reads of a CRD: its newest contract that it has a label of, and
// the last version of that label's value, in the order of Kubernetes' versions.
func chosenVersion(crd *Object) (contract, version string) {
	found := contractsOf(crd)
	if len(found) == 0 {
		return "", ""
	}
	versions := strings.Split(labelsOf(crd)[found[0]], "_")
	return found[0], slices.MaxFunc(versions, k8sversion.CompareKubeAwareVersionStrings)
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

func served(crd *Object, version string) bool {
	_, v := findVersion(crd, version)
	is, _ := get(v, "served").(bool)
	return is
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
				if len(contractsOf(o)) == 0 {
					found(o.at("metadata", "labels"), "there is no label "+contractLabel+"<contract> of contract "+strings.Join(servedContracts, " or "))
				}
			})
		},
	},
	{
		ID: "crd-contract-version", Level: Must, Contract: "InfraMachinePool contract, version",
		Title:  "The version that a contract label leads to is served",
		Remedy: "name a version of spec.versions that has served: true: of several, Cluster API reads the latest",
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if c, name := chosenVersion(o); name != "" && !served(o, name) {
					found(o.at("metadata", "labels", contractLabel+c), fmt.Sprintf("version %q of contract %s is not served", name, c))
				}
			})
		},
	},
	{
		ID: "crd-contract-stale", Level: May, Contract: "InfraMachinePool contract, version",
		Title:  "Every version that a contract label names is served",
		Remedy: "remove the version or the label: Cluster API does not read it, and the contract wants each value to be available",
		check: func(r *Release, found report) {
			roles := r.contractKinds()
			for _, o := range r.crds() {
				chosenContract, chosen := chosenVersion(o)
				labels := labelsOf(o)
				for _, c := range slices.Sorted(maps.Keys(labels)) {
					for name := range strings.SplitSeq(labels[c], "_") {
						read := roles[o] != other && c == chosenContract && name == chosen
						if !read && !served(o, name) {
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
		ID: "crd-contract-series", Whole: true, Level: Should, Contract: "clusterctl provider contract, 2; InfraMachinePool contract, version",
		Title:  "CRDs have the contract that metadata.yaml gives this release",
		Remedy: "label the CRD with that contract, or correct metadata.yaml: clusterctl goes by the file, Cluster API by the label",
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
				served, same := 0, true
				var first any
				for _, v := range list(o.Fields, "spec", "versions") {
					if is, _ := get(v, "served").(bool); !is {
						continue
					}
					schema := undescribed(get(v, "schema"))
					if served++; served == 1 {
						first = schema
					}
					same = same && reflect.DeepEqual(schema, first)
				}
				if served > 1 && !same && text(o.Fields, "spec", "conversion", "strategy") != "Webhook" {
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
		kind := text(crd.Fields, "spec", "names", "kind")
		if r.shapeOf(strings.TrimSuffix(kind, "Template")) != machine {
			continue
		}
		if strings.HasSuffix(kind, "Template") {
			return
		}
		if len(contractsOf(crd)) > 0 && hasField(crd, marks[machine]) {
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
		if len(contractsOf(o)) > 0 && labelsOf(o)[c] == "" {
			found(o.at("metadata", "labels"), fmt.Sprintf("there is no label %s%s", contractLabel, c))
		}
	})
}

// contract that metadata.yaml gives the release, or "".
func (r *Release) contract() string {
	for _, o := range objects(r.Metadata) {
		for _, series := range list(o.Fields, "releaseSeries") {
			if r.ofSeries(series) {
				return text(series, "contract")
			}
		}
	}
	return ""
}

// ofSeries says whether the release is one of a series.
func (r *Release) ofSeries(series any) bool {
	return strings.HasPrefix(strings.TrimPrefix(r.Version, "v"), seriesName(series)+".")
}

// undescribed is a schema without its descriptions.
func undescribed(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		bare := map[string]any{}
		for name, v := range schema {
			if _, isText := v.(string); name != "description" || !isText {
				bare[name] = undescribed(v)
			}
		}
		return bare
	case []any:
		bare := make([]any, len(schema))
		for i, v := range schema {
			bare[i] = undescribed(v)
		}
		return bare
	default:
		return schema
	}
}
