package providercheck

import (
	"fmt"
	"slices"
	"strings"
)

// Labels by which upstream's managers collect their rights.
const (
	coreAggregation         = "cluster.x-k8s.io/aggregate-to-manager"
	controlPlaneAggregation = "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"
)

// coreGroups are those that Cluster API's controllers have rights to already.
var coreGroups = []string{
	"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "addons.cluster.x-k8s.io",
	"ipam.cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "cluster.x-k8s.io",
}

// managerVerbs are what the contract grants core.
var managerVerbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}

var roleRules = []Rule{
	{
		ID: "role-aggregation", Level: Must, Contract: "InfraMachinePool contract, API group; InfraCluster specification, RBAC",
		Title:  "Cluster API's controllers may read and write the provider's resources",
		Remedy: "add a ClusterRole labelled " + coreAggregation + `: "true" with the verbs ` + strings.Join(managerVerbs, ", "),
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, _ shape) {
				if missing := r.missingVerbs(o, coreAggregation); len(missing) > 0 {
					found(o.at("spec", "group"), fmt.Sprintf("no aggregated ClusterRole gives core %s on %s", strings.Join(missing, ", "), o.Name()))
				}
			})
		},
	},
	{
		ID: "role-aggregation-control-plane", Level: Should, Contract: "kubeadm control plane provider, config/rbac/aggregated_role.yaml",
		Title:  "The kubeadm control plane may clone the provider's machine templates",
		Remedy: "add the label " + controlPlaneAggregation + `: "true" to the same ClusterRole`,
		check: func(r *Release, found report) {
			eachContractCRD(r, func(o *Object, s shape) {
				if s != machine && s != machineTemplate {
					return
				}
				if missing := r.missingVerbs(o, controlPlaneAggregation); len(missing) > 0 {
					found(o.at("spec", "group"), fmt.Sprintf("no aggregated ClusterRole gives the kubeadm control plane %s on %s", strings.Join(missing, ", "), o.Name()))
				}
			})
		},
	},
}

// missingVerbs on the resource of a CRD, in the ClusterRoles with the label.
func (r *Release) missingVerbs(crd *Object, label string) []string {
	group, resource := text(crd.Fields, "spec", "group"), text(crd.Fields, "spec", "names", "plural")
	if slices.Contains(coreGroups, group) {
		return nil
	}
	return lacking(r.granted(group, resource, label), managerVerbs)
}

// granted are the verbs on a resource that the ClusterRoles of the components give: those
// with a label that is "true", or all when label is empty.
func (r *Release) granted(group, resource, label string) []string {
	var verbs []string
	for _, role := range of(r.Components, "ClusterRole") {
		if label != "" && text(role.Fields, "metadata", "labels", label) != "true" {
			continue
		}
		for _, rule := range list(role.Fields, "rules") {
			if covers(texts(rule, "apiGroups"), group) && covers(texts(rule, "resources"), resource) {
				verbs = append(verbs, texts(rule, "verbs")...)
			}
		}
	}
	return verbs
}

// lacking are the wanted verbs that are not granted.
func lacking(granted, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(verb string) bool { return covers(granted, verb) })
}

func covers(granted []string, wanted string) bool {
	return slices.Contains(granted, wanted) || slices.Contains(granted, "*")
}
