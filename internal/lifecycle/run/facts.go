package run

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// readCluster finds the Cluster of the run. Without it there is nothing to do: the
// garbage collector takes the run. While it is paused nothing happens: clusterctl move
// keeps it so until everything has arrived, policies among it. One that is paused because
// it waits for the run, and was never made, is none that clusterctl moves.
func (r *Reconciler) readCluster(ctx context.Context, s *scope) error {
	cluster, err := r.clusterOf(ctx, s.run)
	if err != nil {
		return err
	}
	if cluster == nil {
		s.stopped, s.held = true, "its Cluster is gone"
		return nil
	}
	s.cluster = cluster
	if annotations.IsPaused(cluster, s.run) && (!plan.Waits(cluster) || annotations.HasPaused(s.run)) {
		s.stopped, s.held = true, "the Cluster is paused"
	}
	return nil
}

// clusterOf returns the Cluster of a run; nil when it is gone.
func (r *Reconciler) clusterOf(ctx context.Context, run *lifecyclev1.LifecycleRun) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", run.Spec.ClusterName, err)
	}
	// Without a Cluster its UID is empty.
	if cluster.UID == "" || plan.OwnerUID(run) != cluster.UID {
		return nil, nil
	}
	return cluster, nil
}

// readPolicy finds the policy. That there is none any more, only the API server can
// tell.
func (r *Reconciler) readPolicy(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.run.Namespace, Name: s.run.Spec.PolicyName}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		policy := &lifecyclev1.LifecyclePolicy{}
		err := reader.Get(ctx, key, policy)
		if err == nil {
			s.policy = policy
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get LifecyclePolicy %s: %w", key.Name, err)
		}
	}
	return nil
}
