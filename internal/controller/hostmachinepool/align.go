package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// alignMembers passes on to members what changes without replacing them, and takes
// in those that somebody else made, with the labels of the pool, or that were made
// before revisions were recorded: they count as made from the revision of now. A pool that
// is being deleted, or whose Cluster is, takes in none: it would delete them.
func (r *Reconciler) alignMembers(ctx context.Context, s *scope) error {
	if s.revision == "" {
		return nil
	}
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if m.Labels[infrav1.RevisionLabel] != "" && !s.outgrown(m) && slices.Contains(m.OwnerReferences, ownerReference(s.pool)) && m.Spec.ResetPolicy == s.pool.Spec.ResetPolicy {
			continue
		}
		if err := r.confirm(ctx, s); err != nil || s.frozen != "" {
			return err
		}
		before := m.DeepCopy()
		align(m, s)
		if err := r.Client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take HostMachine %s into the pool: %w", m.Name, err)
		}
	}
	return nil
}

func align(m *infrav1.HostMachine, s *scope) {
	if m.Labels[infrav1.RevisionLabel] == "" {
		m.Labels[infrav1.RevisionLabel] = s.revision
		m.Spec.Version = cmp.Or(m.Spec.Version, m.Status.Version, s.machineVersion(m.Name), s.version())
	}
	if s.outgrown(m) {
		m.Labels[infrav1.RevisionLabel] = s.revision
		m.Spec.Placement = s.pool.Spec.Placement
	}
	own(m, s.pool)
	m.Spec.ResetPolicy = s.pool.Spec.ResetPolicy
}

// own makes m refer to its pool as the API has it now. A reference of an older version of
// the API, or to an earlier object of that name, gives way.
func own(m *infrav1.HostMachine, pool *infrav1.HostMachinePool) {
	m.OwnerReferences = slices.DeleteFunc(m.OwnerReferences, host.IsPool)
	m.OwnerReferences = append(m.OwnerReferences, ownerReference(pool))
}

// machineVersion is what the Node of a member runs, as core tells it.
func (s *scope) machineVersion(name string) string {
	if machine := s.machineOf(name); machine != nil {
		return machine.Spec.Version
	}
	return ""
}

// reportReplicas lets the MachinePool follow its members, when somebody else manages
// their number: core then expects spec.replicas to be derived from them
// (ReplicasManagedByAnnotation of its API).
func (r *Reconciler) reportReplicas(ctx context.Context, s *scope) error {
	replicas := int32(s.plan.Desired)
	if !s.external() || ptr.Deref(s.machinePool.Spec.Replicas, 1) == replicas {
		return nil
	}
	before := s.machinePool.DeepCopy()
	s.machinePool.Spec.Replicas = ptr.To(replicas)
	if err := r.Client.Patch(ctx, s.machinePool, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("tell MachinePool %s its replicas, which %s leaves to others: %w", s.machinePool.Name, clusterv1.ReplicasManagedByAnnotation, err)
	}
	return nil
}
