package hostmachinepool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels/format"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// scope holds what the phases saw in one reconcile.
type scope struct {
	pool *infrav1.HostMachinePool
	// machinePool is the owner; nil only while the pool is being deleted.
	machinePool *clusterv1.MachinePool
	clusterName string

	hostMachines []infrav1.HostMachine
	machines     []clusterv1.Machine

	// requeueAfter is when a phase wants to look again; see requeue.
	requeueAfter time.Duration
}

// requeue asks for another reconcile. Of several wishes the soonest counts; zero is
// none.
func (s *scope) requeue(after time.Duration) {
	if after > 0 && (s.requeueAfter == 0 || after < s.requeueAfter) {
		s.requeueAfter = after
	}
}

func newScope(pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool) *scope {
	s := &scope{pool: pool, machinePool: machinePool, clusterName: pool.Labels[clusterv1.ClusterNameLabel]}
	if machinePool != nil {
		s.clusterName = machinePool.Spec.ClusterName
	}
	return s
}

// desired is the number of machines the pool should have.
func (s *scope) desired() int {
	if s.machinePool == nil || !s.pool.DeletionTimestamp.IsZero() || !s.machinePool.DeletionTimestamp.IsZero() {
		return 0
	}
	return int(ptr.Deref(s.machinePool.Spec.Replicas, 1))
}

// memberLabels are what core finds the machines of a pool by.
func (s *scope) memberLabels() client.MatchingLabels {
	// The name of the owner stands in its reference, so that the label is known
	// even when the MachinePool is already gone.
	name := s.pool.Name
	for _, ref := range s.pool.OwnerReferences {
		if ref.Kind == "MachinePool" {
			name = ref.Name
		}
	}
	return client.MatchingLabels{
		clusterv1.ClusterNameLabel:     s.clusterName,
		clusterv1.MachinePoolNameLabel: format.MustFormatValue(name),
	}
}

// readMembers lists the machines of the pool from the cache.
func (r *Reconciler) readMembers(ctx context.Context, s *scope) error {
	return s.read(ctx, r.Client)
}

func (s *scope) read(ctx context.Context, reader client.Reader) error {
	hostMachines := &infrav1.HostMachineList{}
	if err := reader.List(ctx, hostMachines, client.InNamespace(s.pool.Namespace), s.memberLabels()); err != nil {
		return fmt.Errorf("list the HostMachines of the pool: %w", err)
	}
	machines := &clusterv1.MachineList{}
	if err := reader.List(ctx, machines, client.InNamespace(s.pool.Namespace), s.memberLabels()); err != nil {
		return fmt.Errorf("list the Machines of the pool: %w", err)
	}
	s.hostMachines, s.machines = hostMachines.Items, machines.Items
	return nil
}

// members joins HostMachines and Machines by the reference between them.
func (s *scope) members() []member {
	index := map[string]int{}
	members := make([]member, 0, len(s.hostMachines))
	for i := range s.hostMachines {
		m := &s.hostMachines[i]
		index[m.Name] = len(members)
		members = append(members, member{
			name:        m.Name,
			hostMachine: true,
			leaving:     !m.DeletionTimestamp.IsZero(),
			marked:      marked(m),
			claimed:     m.Spec.ProviderID != "",
			provisioned: provisioned(m),
			created:     m.CreationTimestamp.Time,
		})
	}
	for i := range s.machines {
		m := &s.machines[i]
		at, ok := index[m.Spec.InfrastructureRef.Name]
		if !ok {
			at = len(members)
			members = append(members, member{name: m.Name, created: m.CreationTimestamp.Time})
		}
		joined := &members[at]
		joined.machine = true
		joined.machineLeaving = !m.DeletionTimestamp.IsZero()
		joined.leaving = joined.leaving || joined.machineLeaving
		joined.marked = joined.marked || marked(m)
		joined.ready = conditions.IsTrue(m, clusterv1.ReadyCondition)
	}
	return members
}

func marked(o client.Object) bool {
	_, ok := o.GetAnnotations()[clusterv1.DeleteMachineAnnotation]
	return ok
}

func provisioned(m *infrav1.HostMachine) bool {
	return ptr.Deref(m.Status.Initialization.Provisioned, false)
}
