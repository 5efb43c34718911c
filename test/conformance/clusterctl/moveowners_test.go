package clusterctl

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// stays are the objects that belong to a management cluster and not to a Cluster.
var stays = []string{"Secret/" + infrav1.HandOverSecretName, "Secret/" + infrav1.HandOverSignerSecretName}

// everythingIsOwned walks all objects that clusterctl discovers in the namespace: each is
// linked to the Cluster or its ClusterClass by owner references, but for Hosts, which are
// inventory. And clusterctl itself finds exactly these to be moved. There must be objects
// of our kinds, and of more that are named.
func everythingIsOwned(t *testing.T, m *management, kinds ...string) {
	t.Helper()
	objects := m.discovered()
	owners := map[types.UID][]types.UID{}
	var roots []types.UID
	for _, o := range objects {
		for _, ref := range o.GetOwnerReferences() {
			owners[o.GetUID()] = append(owners[o.GetUID()], ref.UID)
		}
		if o.GetKind() == "Cluster" || o.GetKind() == "ClusterClass" {
			roots = append(roots, o.GetUID())
		}
	}
	plan := m.run("move", "-n", team, "--dry-run", "-v", "1")
	seen := map[string]bool{}
	for _, o := range objects {
		name := o.GetKind() + "/" + o.GetName()
		seen[o.GetKind()] = true
		if slices.Contains(stays, name) {
			if strings.Contains(plan, "Creating "+o.GetKind()+"=\""+o.GetName()+"\"") {
				t.Errorf("clusterctl would move %s", name)
			}
			continue
		}
		if o.GetKind() != "Host" && !leadsTo(owners, o.GetUID(), roots, 0) {
			t.Errorf("%s is not linked to the Cluster: %v", name, o.GetOwnerReferences())
		}
		if !strings.Contains(plan, "Creating "+o.GetKind()+"=\""+o.GetName()+"\"") {
			t.Errorf("clusterctl would leave %s behind:\n%s", name, plan)
		}
	}
	for _, kind := range append([]string{"HostCluster", "HostMachine", "HostMachinePool", "Host", "KubeadmConfig", "Secret"}, kinds...) {
		if !seen[kind] {
			t.Errorf("there is no %s to judge", kind)
		}
	}
}

// leadsTo follows owner references to one of the roots.
func leadsTo(owners map[types.UID][]types.UID, from types.UID, roots []types.UID, depth int) bool {
	const longest = 10
	if slices.Contains(roots, from) {
		return true
	}
	return depth < longest && slices.ContainsFunc(owners[from], func(owner types.UID) bool {
		return leadsTo(owners, owner, roots, depth+1)
	})
}

// discovered are the objects in the namespace of all kinds that clusterctl looks at.
func (m *management) discovered() []unstructured.Unstructured {
	m.t.Helper()
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := m.Client.List(m.t.Context(), crds, client.HasLabels{clusterctlv1.ClusterctlLabel}); err != nil {
		m.t.Fatal(err)
	}
	for _, crd := range crds.Items {
		for _, version := range crd.Spec.Versions {
			if version.Storage && crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
				kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
			}
		}
	}
	var objects []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := m.Client.List(m.t.Context(), list, client.InNamespace(team)); err != nil {
			m.t.Fatal(err)
		}
		objects = append(objects, list.Items...)
	}
	return objects
}
