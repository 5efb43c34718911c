package provider

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	// The manifests are read by another program: so the cache of `go test` knows
	// when they change.
	_ "github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// Contract is a version of Cluster API's provider contract.
type Contract string

// The contract versions this provider has a CRD version for. The two have the same
// names: see the labels of the CRDs.
const (
	V1Beta1 Contract = "v1beta1"
	V1Beta2 Contract = "v1beta2"
)

// Suite is a management cluster whose core knows one contract version of this
// provider, and a workload cluster.
type Suite struct {
	Contract Contract
	*judge.Plane
	// Workload is the API server of every Cluster of the suite.
	Workload *judge.Plane
	Kit      *judge.Kit
	// MoreVersions of Kubernetes are those that hosts offer besides the one of all rules.
	MoreVersions []string

	workloadClient kubernetes.Interface
}

// NewSuite returns a suite on two planes.
func NewSuite(contract Contract, kit *judge.Kit, plane, workload *judge.Plane) (*Suite, error) {
	workloadClient, err := kubernetes.NewForConfig(workload.Config)
	return &Suite{Contract: contract, Plane: plane, Workload: workload, Kit: kit, workloadClient: workloadClient}, err
}

// Run judges the rules of the level, each in a subtest of its own: those of the gate, or every
// rule. They run beside each other, once t has returned.
func Run(t *testing.T, s *Suite) {
	for contract, rules := range chosen() {
		for _, rule := range rules {
			t.Run(contract+"/"+rule.Name, func(t *testing.T) {
				t.Parallel()
				s.alive(t)
				rule.Judge(t, s)
			})
		}
	}
}

// Check holds that no manager ended, and none was refused anything, while rules were judged.
func Check(t *testing.T, s *Suite) {
	t.Helper()
	if err := s.Failures(); err != nil {
		t.Error(err)
	}
	for _, line := range s.Logged("is forbidden: User") {
		t.Errorf("a right is missing: %s", line)
	}
}

// chosen returns the rules to judge, by the contract that has them.
func chosen() map[string][]Rule {
	all := Rules()
	if level.IsDeep() {
		return all
	}
	for contract, rules := range all {
		all[contract] = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !InGate(contract, r.Name) })
	}
	return all
}

// alive ends a rule at once when a manager is gone: nothing would come true.
func (s *Suite) alive(t *testing.T) {
	t.Helper()
	if s.Failures() != nil {
		t.Fatal("a manager ended, see the end of the suite")
	}
}

// NewScheme knows what the suite reads and writes.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, authorizationv1.AddToScheme,
		manager.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Slipway is this provider with the labels of some contract versions on its CRDs,
// and with flags. Core takes the newest contract version it finds there.
func Slipway(ctx context.Context, kit *judge.Kit, name string, contracts []Contract, flags ...string) (judge.Subject, error) {
	objects, err := manifests(ctx, kit, contracts)
	return judge.Subject{
		Name: name, Package: module + "/cmd/slipway-manager", Flags: append([]string{"--diagnostics-address=0"}, flags...),
		Namespace: namespace, ServiceAccount: "slipway-manager", Objects: objects,
	}, err
}

const (
	module = "github.com/slipway-dev/slipway"
	// namespace the manager runs in.
	namespace = "slipway-system"
)

// manifests are what is released, with no other labels of contract versions than
// the given ones.
func manifests(ctx context.Context, kit *judge.Kit, contracts []Contract) ([]*unstructured.Unstructured, error) {
	released, err := kit.Render(ctx, module, "config/default")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, object := range released {
		object = object.DeepCopy()
		if object.GetKind() == "CustomResourceDefinition" {
			labels := object.GetLabels()
			maps.DeleteFunc(labels, func(key, _ string) bool {
				version, found := strings.CutPrefix(key, "cluster.x-k8s.io/")
				return found && !slices.Contains(contracts, Contract(version))
			})
			object.SetLabels(labels)
		}
		// As clusterctl does; all but the binding whose kind is a variable say it themselves.
		if object.GetKind() == "RoleBinding" && object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// group is the API group of this provider.
var group = infrav1.GroupVersion.Group

// object is one of this provider in the version core reads it in.
func (s *Suite) object(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/" + string(s.Contract))
	object.SetKind(kind)
	return object
}

// namespaceFor makes a namespace for one rule. Namespaces are not deleted: no
// controller would finish that.
func (s *Suite) namespaceFor(t *testing.T) string {
	t.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rule-"}}
	if err := s.Client.Create(t.Context(), created); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, line := range s.LastLogged(created.Name) {
			t.Log(line)
		}
	})
	return created.Name
}
