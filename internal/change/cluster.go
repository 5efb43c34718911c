package change

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster patches a Cluster with what apply changes of its spec. It takes the verbs get and patch on
// clusters.
func Cluster(ctx context.Context, c client.Writer, cluster *clusterv1.Cluster, apply func(*clusterv1.Cluster) error) error {
	before := cluster.DeepCopy()
	if err := apply(cluster); err != nil || equality.Semantic.DeepEqual(before.Spec, cluster.Spec) {
		return err
	}
	return patch(ctx, c, cluster, before)
}

// Pause has nothing of a cluster changed until it is resumed.
func Pause(paused bool) func(*clusterv1.Cluster) error {
	return func(c *clusterv1.Cluster) error {
		c.Spec.Paused = ptr.To(paused)
		return nil
	}
}
