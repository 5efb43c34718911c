package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Kind says where an expression stands, and so which variables it has and what it may
// cost.
type Kind int

const (
	// Match is a matchCondition: it has the variable cluster. It is evaluated while
	// Cluster API waits for an answer, and may take some 10 ms.
	Match Kind = iota
	// Step is the expression of an expression step: cluster, request, hosts and
	// clusters. It may run for some seconds.
	Step
	// Wait is the expression of a wait step: those of Step, and objects.
	Wait
)

// Variables of expressions.
const (
	// ClusterVariable is the Cluster of the hook, with its status.
	ClusterVariable = "cluster"
	// RequestVariable is what the hook's request says besides the Cluster.
	RequestVariable = "request"
	// HostsVariable lists the Hosts of the namespace.
	HostsVariable = "hosts"
	// ClustersVariable lists the Clusters of the namespace, the hook's among them.
	ClustersVariable = "clusters"
	// ObjectsVariable lists the objects that a wait step selects.
	ObjectsVariable = "objects"
)

// compatibility is the version of Kubernetes whose CEL libraries are there. It is
// fixed: what a stored policy means must not depend on the program that reads it.
var compatibility = version.MajorMinor(1, 36)

// costLimit is in units of Kubernetes' cost model, which has a million take 0.1 s and more.
func (k Kind) costLimit() uint64 {
	if k == Match {
		return celconfig.PerCallLimit / 10
	}
	return celconfig.RuntimeCELCostBudget
}

func (k Kind) variables() []cel.EnvOption {
	list := cel.ListType(cel.DynType)
	options := []cel.EnvOption{cel.Variable(ClusterVariable, cel.DynType)}
	if k == Step || k == Wait {
		options = append(options,
			cel.Variable(RequestVariable, requestType.CelType()),
			cel.Variable(HostsVariable, list),
			cel.Variable(ClustersVariable, list))
	}
	if k == Wait {
		options = append(options, cel.Variable(ObjectsVariable, list))
	}
	return options
}

// requestType lets the compiler find misspelled fields. None is required: which are
// there depends on the hook.
var requestType = func() *apiservercel.DeclType {
	fields := map[string]*apiservercel.DeclField{}
	for _, name := range []string{"hook", "fromKubernetesVersion", "toKubernetesVersion", "kubernetesVersion"} {
		fields[name] = apiservercel.NewDeclField(name, apiservercel.StringType, false, nil, nil)
	}
	for _, name := range []string{"controlPlaneUpgrades", "workersUpgrades"} {
		fields[name] = apiservercel.NewDeclField(name, apiservercel.NewListType(upgradeType, maxUpgrades), false, nil, nil)
	}
	return apiservercel.NewObjectType("slipway.lifecycle.Request", fields)
}()

// upgradeType is one version of the plan of an upgrade.
var upgradeType = apiservercel.NewObjectType("slipway.lifecycle.UpgradeStep", map[string]*apiservercel.DeclField{
	"version": apiservercel.NewDeclField("version", apiservercel.StringType, true, nil, nil),
})

// maxUpgrades is the length of a plan that the API takes.
const maxUpgrades = 256

// environments are built when the first expression is compiled: it takes a while, and
// looks at feature gates, which programs set when they start.
var environments = sync.OnceValues(func() (map[Kind]*cel.Env, error) {
	environments := map[Kind]*cel.Env{}
	for _, kind := range []Kind{Match, Step, Wait} {
		set, err := environment.MustBaseEnvSet(compatibility).Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        kind.variables(),
			DeclTypes:         []*apiservercel.DeclType{requestType, upgradeType},
		}, environment.StrictCostOpt)
		if err != nil {
			return nil, fmt.Errorf("build the CEL environment: %w", err)
		}
		environments[kind] = set.NewExpressionsEnv()
	}
	return environments, nil
})

// Inputs are what expressions look at. What the expression does not mention can be
// omitted (see Program.Uses): its variables are then null or empty.
type Inputs struct {
	// Cluster of the hook.
	Cluster *clusterv1.Cluster
	// Hook that was called, and the rest of its request.
	Hook    lifecyclev1.HookName
	Request lifecyclev1.RunRequest
	// Hosts and Clusters of the namespace.
	Hosts    []infrav1.Host
	Clusters []clusterv1.Cluster
	// Objects that a wait step selects.
	Objects []unstructured.Unstructured
}

// Variables returns the variables of expressions, in the form in which the API serves
// the objects.
func Variables(in Inputs) (map[string]any, error) {
	cluster, err := toMap(in.Cluster)
	if err != nil {
		return nil, err
	}
	hosts, err := toList(in.Hosts)
	if err != nil {
		return nil, err
	}
	clusters, err := toList(in.Clusters)
	if err != nil {
		return nil, err
	}
	objects := make([]any, len(in.Objects))
	for i := range in.Objects {
		objects[i] = in.Objects[i].Object
	}
	return map[string]any{
		ClusterVariable:  cluster,
		RequestVariable:  request(in.Hook, in.Request),
		HostsVariable:    hosts,
		ClustersVariable: clusters,
		ObjectsVariable:  objects,
	}, nil
}

func request(hook lifecyclev1.HookName, request lifecyclev1.RunRequest) map[string]any {
	fields := map[string]any{"hook": string(hook)}
	for name, value := range map[string]string{
		"fromKubernetesVersion": request.FromKubernetesVersion,
		"toKubernetesVersion":   request.ToKubernetesVersion,
		"kubernetesVersion":     request.KubernetesVersion,
	} {
		if value != "" {
			fields[name] = value
		}
	}
	// Lists of a hook that has none are empty, so that an expression need not check first.
	fields["controlPlaneUpgrades"] = upgrades(request.ControlPlaneUpgrades)
	fields["workersUpgrades"] = upgrades(request.WorkersUpgrades)
	return fields
}

func upgrades(steps []lifecyclev1.UpgradeStep) []any {
	list := make([]any, len(steps))
	for i, step := range steps {
		list[i] = map[string]any{"version": step.Version}
	}
	return list
}

// toMap returns nil, CEL's null, for no object.
func toMap[T any](object *T) (any, error) {
	if object == nil {
		return nil, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %T for an expression: %w", object, err)
	}
	return fields, nil
}

func toList[T any](objects []T) ([]any, error) {
	list := make([]any, len(objects))
	for i := range objects {
		fields, err := toMap(&objects[i])
		if err != nil {
			return nil, err
		}
		list[i] = fields
	}
	return list, nil
}

// Sizes of a large namespace, from which costs are estimated. An expression that is
// dear only beyond them is stopped when it runs.
var listSizes = map[string]uint64{
	HostsVariable:    500,
	ClustersVariable: 200,
	ObjectsVariable:  500,
}

// otherSize is that of every list, map and string inside of objects.
const otherSize = 128

// sizes implements checker.CostEstimator. Objects have no schema here, so that nothing
// else bounds them.
type sizes struct{}

func (sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if path := element.Path(); len(path) == 1 {
		if size, known := listSizes[path[0]]; known {
			return &checker.SizeEstimate{Min: 0, Max: size}
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: otherSize}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
