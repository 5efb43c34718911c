package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// publish reports the pool to core. Core deletes the Node of a providerID that
// leaves the list, so one leaves it only when a live read shows that its
// HostMachine is gone; and that goes only when its host is released.
func (r *Reconciler) publish(ctx context.Context, s *scope) error {
	ids := providerIDs(s.hostMachines)
	if drops(s.pool.Spec.ProviderIDList, ids) {
		if err := s.read(ctx, r.APIReader); err != nil {
			return err
		}
		ids = providerIDs(s.hostMachines)
	}
	if err := r.recordProviderIDs(ctx, s, ids); err != nil {
		return err
	}
	r.describe(s, len(ids))
	return nil
}

// describe computes the status of a pool of which so many members have claimed a host.
func (r *Reconciler) describe(s *scope, claimed int) {
	status := &s.pool.Status
	status.InfrastructureMachineKind = machineKind
	status.Replicas = int32(claimed)
	status.ReadyReplicas = readyReplicas(s.hostMachines)
	status.Instances = instances(s)
	if !status.Ready && s.pool.DeletionTimestamp.IsZero() && complete(s, claimed) {
		r.Recorder.Eventf(s.pool, nil, "Normal", "Provisioned", "Provision", "The pool has %d of %d hosts", claimed, s.plan.Desired)
		status.Ready = true
	}
	if status.Ready {
		status.Initialization.Provisioned = ptr.To(true)
	}
}

// recordProviderIDs writes the IDs by a lock on the pool as it was read. Where the cache is
// behind the API server, an ID that a live read published looks as if it had never been
// in the list, and a list without it would cost a running machine its Node.
func (r *Reconciler) recordProviderIDs(ctx context.Context, s *scope, ids []string) error {
	if s.pool.Spec.ProviderID == poolID(s.pool) && slices.Equal(s.pool.Spec.ProviderIDList, ids) {
		return nil
	}
	before, written := s.pool.DeepCopy(), s.pool.DeepCopy()
	written.Spec.ProviderID, written.Spec.ProviderIDList = poolID(s.pool), ids
	if err := r.Client.Patch(ctx, written, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the providerIDs of the pool: %w", err)
	}
	s.pool.ObjectMeta, s.pool.Spec = written.ObjectMeta, written.Spec
	var err error
	s.helper, err = patch.NewHelper(written, r.Client)
	return err
}

func poolID(pool *infrav1.HostMachinePool) string {
	return fmt.Sprintf("%s%s/pools/%s", infrav1.ProviderIDPrefix, pool.Namespace, pool.Name)
}

// complete says whether core may begin to read the pool. Core looks at neither the
// providerIDs nor the Nodes before, so it is said as soon as every member has a
// host, which is while the hosts still bootstrap; or, in a pool that finds too few
// hosts, with its first machine, lest the missing ones hide those that run.
func complete(s *scope, claimed int) bool {
	return claimed >= s.plan.Desired || s.pool.Status.ReadyReplicas > 0
}

// providerIDs are sorted: core takes another order for a change.
func providerIDs(machines []infrav1.HostMachine) []string {
	var ids []string
	for i := range machines {
		if id := machines[i].Spec.ProviderID; id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// drops says whether an ID of before is missing in after. Both are sorted.
func drops(before, after []string) bool {
	return slices.ContainsFunc(before, func(id string) bool {
		_, found := slices.BinarySearch(after, id)
		return !found
	})
}

func readyReplicas(machines []infrav1.HostMachine) int32 {
	var n int32
	for i := range machines {
		if well(&machines[i]) {
			n++
		}
	}
	return n
}

func instances(s *scope) []infrav1.HostMachinePoolInstanceStatus {
	list := make([]infrav1.HostMachinePoolInstanceStatus, 0, min(len(s.hostMachines), infrav1.MaxInstances))
	sorted := make([]*infrav1.HostMachine, 0, len(s.hostMachines))
	for i := range s.hostMachines {
		sorted = append(sorted, &s.hostMachines[i])
	}
	slices.SortFunc(sorted, func(a, b *infrav1.HostMachine) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range sorted[:cap(list)] {
		list = append(list, infrav1.HostMachinePoolInstanceStatus{
			InstanceName: m.Name,
			HostName:     m.Status.HostRef.Name,
			Addresses:    m.Status.Addresses,
			ProviderID:   m.Spec.ProviderID,
			Version:      m.Status.Version,
			Revision:     m.Labels[infrav1.RevisionLabel],
			Ready:        well(m),
		})
	}
	return list
}

// finish lets a deleted pool go when its last member is gone.
func (r *Reconciler) finish(_ context.Context, s *scope) error {
	if len(s.hostMachines) == 0 && len(s.machines) == 0 {
		controllerutil.RemoveFinalizer(s.pool, infrav1.HostMachinePoolFinalizer)
	}
	return nil
}

// well says whether a member is provisioned and nothing is known to be wrong with its
// agent and its Node.
func well(m *infrav1.HostMachine) bool {
	return ptr.Deref(m.Status.Initialization.Provisioned, false) && m.DeletionTimestamp.IsZero() && !conditions.IsFalse(m, clusterv1.ReadyCondition)
}
