package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// kinds are those that core interacts with.
var kinds = []string{
	"HostCluster", "HostClusterTemplate", "HostMachine", "HostMachineTemplate", "HostMachinePool", "HostMachinePoolTemplate",
}

// crd finds the CRD of a kind by the name core calculates; there is no other way.
func (s *Suite) crd(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: contract.CalculateCRDName(group, kind)}, crd); err != nil {
		t.Fatalf("CRD of %s: %v", kind, err)
	}
	return crd
}

// Every CRD has the name that CalculateCRDName gives.
func crdNames(t *testing.T, s *Suite) {
	for _, kind := range kinds {
		if got := s.crd(t, kind).Spec.Names.Kind; got != kind {
			t.Errorf("the CRD of %s is one of %s", kind, got)
		}
	}
}

// All resources are namespaced.
func namespaced(t *testing.T, s *Suite) {
	for _, kind := range kinds {
		if scope := s.crd(t, kind).Spec.Scope; scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("%s has scope %s", kind, scope)
		}
	}
}

// All resources have type and object metadata, and all of the latter is kept.
func metaOfResources(t *testing.T, s *Suite) {
	namespace := s.namespaceFor(t)
	for _, kind := range kinds {
		object := s.sample(kind, namespace, "meta")
		object.SetLabels(map[string]string{"a": "b"})
		object.SetAnnotations(map[string]string{"c": "d"})
		object.SetFinalizers([]string{"example.com/test"})
		if err := s.Client.Create(t.Context(), object); err != nil {
			t.Errorf("create %s: %v", kind, err)
			continue
		}
		read := s.object(kind)
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(object), read); err != nil {
			t.Errorf("get %s: %v", kind, err)
			continue
		}
		if read.GetKind() != kind || read.GetAPIVersion() != object.GetAPIVersion() || read.GetUID() == "" || read.GetLabels()["a"] != "b" ||
			read.GetAnnotations()["c"] != "d" || !slices.Contains(read.GetFinalizers(), object.GetFinalizers()[0]) {
			t.Errorf("%s lost metadata: %v", kind, read.Object["metadata"])
		}
	}
}

// sample is an object that the API server takes.
func (s *Suite) sample(kind, namespace, name string) *unstructured.Unstructured {
	object := s.object(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	if strings.HasSuffix(kind, "Template") {
		object.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	}
	return object
}

// Every kind has its list, named <Kind>List.
func lists(t *testing.T, s *Suite) {
	namespace := s.namespaceFor(t)
	for _, kind := range kinds {
		s.checkList(t, kind, namespace)
	}
}

func (s *Suite) checkList(t *testing.T, kind, namespace string) {
	t.Helper()
	if err := s.Client.Create(t.Context(), s.sample(kind, namespace, "listed")); err != nil {
		t.Errorf("create %s: %v", kind, err)
		return
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/" + string(s.Contract))
	list.SetKind(kind + "List")
	if err := s.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Errorf("list %s: %v", kind, err)
		return
	}
	if list.GetKind() != kind+"List" || len(list.Items) != 1 || list.Items[0].GetKind() != kind {
		t.Errorf("%sList is a %s of %d", kind, list.GetKind(), len(list.Items))
	}
	if got := s.crd(t, kind).Spec.Names.ListKind; got != kind+"List" {
		t.Errorf("the list of %s is named %s", kind, got)
	}
}

// InfraMachinePool and its list are defined.
func poolResources(t *testing.T, s *Suite) {
	s.crd(t, "HostMachinePool")
	s.checkList(t, "HostMachinePool", s.namespaceFor(t))
}

// The template of the pool, its list and its CRD name.
func poolTemplate(t *testing.T, s *Suite) {
	s.crd(t, "HostMachinePoolTemplate")
	s.checkList(t, "HostMachinePoolTemplate", s.namespaceFor(t))
}

// The template of the cluster, its list and its CRD name.
func clusterTemplate(t *testing.T, s *Suite) {
	s.crd(t, "HostClusterTemplate")
	s.checkList(t, "HostClusterTemplate", s.namespaceFor(t))
}

// The label of the contract version points to served versions, and as released
// every CRD has that of both contract versions.
func contractLabels(t *testing.T, s *Suite) {
	released, err := manifests(t.Context(), s.Kit, []Contract{V1Beta1, V1Beta2})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]map[string]string{}
	for _, object := range released {
		byName[object.GetName()] = object.GetLabels()
	}
	for _, kind := range kinds {
		crd := s.crd(t, kind)
		for _, c := range []Contract{V1Beta1, V1Beta2} {
			if err := pointsToServed(crd, byName[crd.Name]["cluster.x-k8s.io/"+string(c)]); err != nil {
				t.Errorf("%s, contract %s: %v", crd.Name, c, err)
			}
		}
		if got := crd.Labels["cluster.x-k8s.io/"+string(s.Contract)]; got == "" {
			t.Errorf("%s: the suite runs without the label it judges", crd.Name)
		}
	}
}

func pointsToServed(crd *apiextensionsv1.CustomResourceDefinition, label string) error {
	if label == "" {
		return errors.New("no label")
	}
	for version := range strings.SplitSeq(label, "_") {
		served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version && v.Served
		})
		if !served {
			return fmt.Errorf("version %s is not served", version)
		}
	}
	return nil
}

// The API group is one the API server serves.
func clusterGroup(t *testing.T, s *Suite) {
	crd := s.crd(t, "HostCluster")
	if crd.Spec.Group != group {
		t.Errorf("group %s", crd.Spec.Group)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/" + string(s.Contract))
	list.SetKind("HostClusterList")
	if err := s.Client.List(t.Context(), list, client.Limit(1)); err != nil {
		t.Error(err)
	}
}

// The group is not Cluster API's own, so core gets its rights by aggregation.
func coreHasRights(t *testing.T, s *Suite) {
	for _, kind := range kinds {
		resource := s.crd(t, kind).Spec.Names.Plural
		for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
			poll.Until(t, "core may "+verb+" "+resource, func() error {
				if !s.may(t, judge.Core.Namespace, judge.Core.ServiceAccount, verb, group, resource, "") {
					return errors.New("it may not")
				}
				return nil
			})
		}
	}
}

// The provider has the rights to its own types, reads Cluster API's, and has no
// more than it needs of what is worth stealing.
func providerRights(t *testing.T, s *Suite) {
	const clusterAPI = "cluster.x-k8s.io"
	for _, c := range []struct {
		want                                bool
		verbs, group, resource, subresource string
	}{
		{true, "get list watch patch", group, "hostclusters", ""},
		{true, "patch", group, "hostclusters", "status"},
		{true, "get list watch patch", group, "hostmachinepools", ""},
		{true, "get list watch create patch delete", group, "hostmachines", ""},
		{true, "get list watch", clusterAPI, "clusters", ""},
		// patch is for spec.replicas, where somebody else manages them
		{true, "get list watch patch", clusterAPI, "machinepools", ""},
		{false, "create update patch delete", clusterAPI, "clusters", ""},
		{false, "create update delete", clusterAPI, "machinepools", ""},
		// patch and delete are for some Secrets only, which no role can say
		{false, "list watch create update", "", "secrets", ""},
		{false, "delete", group, "hosts", ""},
		{false, "create delete", group, "hostclusters", ""},
		{false, "impersonate", "", "users", ""},
	} {
		for verb := range strings.FieldsSeq(c.verbs) {
			if got := s.may(t, namespace, "slipway-manager", verb, c.group, c.resource, c.subresource); got != c.want {
				t.Errorf("may %s %s/%s: %v, want %v", verb, c.resource, c.subresource, got, c.want)
			}
		}
	}
	leavesSecretsAlone(t, s)
}

// Who may change any Secret may put a kubeconfig of its own in the place of a cluster's. A
// policy of the release keeps the manager from those that are not its own.
func leavesSecretsAlone(t *testing.T, s *Suite) {
	t.Helper()
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespaceFor(t), Name: "c1-kubeconfig"}, Type: clusterv1.ClusterSecretType}
	if err := s.Client.Create(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":slipway-manager"}
	manager, err := client.New(config, client.Options{Scheme: s.Client.Scheme(), Mapper: s.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"patch": func() error {
			return manager.Patch(t.Context(), kubeconfig.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"value":"eA=="}}`)), client.DryRunAll)
		},
		"delete": func() error { return manager.Delete(t.Context(), kubeconfig.DeepCopy(), client.DryRunAll) },
	} {
		// The API server takes a moment to see a new policy.
		poll.Until(t, "the manager may not "+what+" the kubeconfig of a cluster", func() error {
			switch err := try(); {
			case err == nil:
				return errors.New("it may")
			case apierrors.IsForbidden(err):
				return nil
			default:
				return err
			}
		})
	}
}

func (s *Suite) may(t *testing.T, namespace, account, verb, group, resource, subresource string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: metav1.NamespaceDefault, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	if err := s.Client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
