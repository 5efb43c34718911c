package providercheck

import (
	"fmt"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"
)

// ipamSpecification is where the rules of IPAM providers stand.
const ipamSpecification = "IPAM provider specification"

// ipamRights are what a provider does with the objects of Cluster API: it follows claims
// and whether their Cluster is paused, makes and deletes addresses, and tells the claim.
var ipamRights = []struct {
	group, resource string
	verbs           []string
}{
	{"ipam.cluster.x-k8s.io", "ipaddressclaims", []string{"get", "list", "watch"}},
	{"ipam.cluster.x-k8s.io", "ipaddresses", []string{"create", "delete"}},
	{"cluster.x-k8s.io", "clusters", []string{"get"}},
}

var ipamRules = []Rule{
	{
		ID: "ipam-pool", Level: Must, Contract: ipamSpecification + ", data types",
		Title:  "An IPAM provider has a kind of address pool, whose CRD has the name that CalculateCRDName gives it",
		Remedy: "define the pools that IPAddressClaims refer to as a CustomResourceDefinition in the components",
		check: func(r *Release, found report) {
			if r.Type != clusterctlv1.IPAMProviderType || len(r.Components) == 0 {
				return
			}
			if len(r.crds()) == 0 {
				found(place{file: r.Components[0].Name}, "the components define no kind")
			}
			for _, o := range r.pools() {
				if want := contract.CalculateCRDName(text(o.Fields, "spec", "group"), text(o.Fields, "spec", "names", "kind")); o.Name() != want {
					found(o.at("metadata", "name"), fmt.Sprintf("the name must be %s", want))
				}
			}
		},
	},
	{
		ID: "ipam-pool-conditions", Level: Should, Contract: ipamSpecification + ", data types",
		Title:  "Address pools have conditions",
		Remedy: "add status.conditions with a condition Ready, which sums up the others",
		check: func(r *Release, found report) {
			for _, o := range r.pools() {
				for i, v := range list(o.Fields, "spec", "versions") {
					if text(v, "schema", "openAPIV3Schema", "properties", "status", "properties", "conditions", "type") != "array" {
						found(o.at("spec", "versions", fmt.Sprint(i)), fmt.Sprintf("version %s has no status.conditions", text(v, "name")))
					}
				}
			}
		},
	},
	{
		ID: "ipam-rights", Level: Must, Contract: ipamSpecification + ", behaviour",
		Title:  "An IPAM provider may follow claims and clusters, make addresses and tell the claim",
		Remedy: "add the verbs to a ClusterRole of the provider's manager",
		check: func(r *Release, found report) {
			if r.Type != clusterctlv1.IPAMProviderType || len(r.Components) == 0 {
				return
			}
			at := place{file: r.Components[0].Name}
			for _, right := range ipamRights {
				if missing := lacking(r.granted(right.group, right.resource, ""), right.verbs); len(missing) > 0 {
					found(at, fmt.Sprintf("no ClusterRole gives %s on %s.%s", strings.Join(missing, ", "), right.resource, right.group))
				}
			}
			if granted := r.granted("ipam.cluster.x-k8s.io", "ipaddressclaims/status", ""); !covers(granted, "update") && !covers(granted, "patch") {
				found(at, "no ClusterRole gives update or patch on ipaddressclaims/status.ipam.cluster.x-k8s.io")
			}
		},
	},
}

// pools are the kinds of address pools that an IPAM provider defines. Others of its kinds
// are its own business.
func (r *Release) pools() []*Object {
	if r.Type != clusterctlv1.IPAMProviderType {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.crds()), func(o *Object) bool {
		return !strings.HasSuffix(text(o.Fields, "spec", "names", "kind"), "Pool")
	})
}
