package expression

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Inputs are what expressions look at. What the expression does not mention can be
// left out (see Program.Uses): its variables are then null or empty.
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
	// Lists of a hook that has none are empty, so that an expression need not ask first.
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
