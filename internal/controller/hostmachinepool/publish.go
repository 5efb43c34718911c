package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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
	s.pool.Spec.ProviderID = fmt.Sprintf("%s%s/pools/%s", infrav1.ProviderIDPrefix, s.pool.Namespace, s.pool.Name)
	s.pool.Spec.ProviderIDList = ids

	status := &s.pool.Status
	status.InfrastructureMachineKind = machineKind
	status.Replicas = int32(len(ids))
	status.ReadyReplicas = readyReplicas(s.hostMachines)
	status.Instances = instances(s)
	if !status.Ready && s.pool.DeletionTimestamp.IsZero() && complete(s, len(ids)) {
		r.Recorder.Eventf(s.pool, nil, "Normal", "Provisioned", "Provision", "The pool has %d of %d hosts", len(ids), s.plan.Desired)
		status.Ready = true
	}
	if status.Ready {
		status.Initialization.Provisioned = ptr.To(true)
	}
	return nil
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
