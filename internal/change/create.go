package change

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/clusters"
)

// Versions are those of Kubernetes that the hosts have, newest first.
func Versions(hosts []infrav1.Host) []string {
	found := map[string]*utilversion.Version{}
	for i := range hosts {
		for _, v := range hosts[i].Status.Inventory.KubernetesVersions {
			if version, err := utilversion.ParseSemantic(v); err == nil {
				found["v"+version.String()] = version
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		order, _ := found[b].Compare(a) // which was parsed before
		return cmp.Or(order, cmp.Compare(a, b))
	})
}

// DefaultClass is the ClusterClass of local hosts where there is one: their kubelets need what it says.
func DefaultClass(ctx context.Context, c client.Reader, namespace string) (string, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusters.LocalClass}, &clusterv1.ClusterClass{})
	if apierrors.IsNotFound(err) {
		return clusters.DefaultClass, nil
	}
	return clusters.LocalClass, err
}

// ClassOf returns a ClusterClass, and the objects of the one of the release when that is wanted
// and does not exist. Any other class is its author's: the error is NotFound then.
func ClassOf(ctx context.Context, c client.Reader, of client.ObjectKey) (*clusterv1.ClusterClass, []client.Object, error) {
	class := &clusterv1.ClusterClass{}
	err := c.Get(ctx, of, class)
	if !apierrors.IsNotFound(err) || of.Name != clusters.DefaultClass {
		return class, nil, err
	}
	missing, err := clusters.Class(of.Namespace)
	if err != nil {
		return nil, nil, err
	}
	last := missing[len(missing)-1].(*unstructured.Unstructured)
	return class, missing, runtime.DefaultUnstructuredConverter.FromUnstructured(last.Object, class)
}

// NewCluster returns the objects of a new Cluster in the order in which to create them, its class among them where
// that does not exist yet.
func NewCluster(ctx context.Context, c client.Reader, o clusters.Options) ([]client.Object, error) {
	objects, err := clusters.New(o)
	if err != nil {
		return nil, err
	}
	class, missing, err := ClassOf(ctx, c, client.ObjectKey{Namespace: o.Namespace, Name: o.Class})
	if err != nil {
		return nil, err
	}
	if err := clusters.CheckVariables(class, o.Variables); err != nil {
		return nil, err
	}
	return append(missing, objects...), nil
}

// Create creates objects in their order, and calls created for each. Those that exist already are left alone, but for
// the Cluster: its error is AlreadyExists.
func Create(ctx context.Context, c client.Writer, objects []client.Object, created func(kind, name string), options ...client.CreateOption) error {
	for _, object := range objects {
		kind, name := object.GetObjectKind().GroupVersionKind().Kind, object.GetName()
		err := c.Create(ctx, object, options...)
		switch {
		case apierrors.IsAlreadyExists(err) && kind != "Cluster":
			continue
		case err != nil:
			return fmt.Errorf("create %s %s: %w", kind, name, err)
		}
		created(kind, name)
	}
	return nil
}
