package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Kind says where an expression stands, and so which variables it has and what it may
// cost.
type Kind int

const (
	// Match is a matchCondition: it has the variable cluster. It is evaluated while
	// Cluster API waits for an answer, and may take some 10 ms.
	Match Kind = iota
	// Step is the expression of an expression step: cluster, request, hosts and
	// clusters. It may take some seconds.
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
