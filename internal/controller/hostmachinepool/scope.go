package hostmachinepool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/cluster-api/util/patch"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/pool"
)

// scope holds what the phases saw in one reconcile.
type scope struct {
	pool *infrav1.HostMachinePool
	// machinePool is the owner; nil only while the pool is being deleted.
	machinePool *clusterv1.MachinePool
	cluster     *clusterv1.Cluster
	clusterName string
	// frozen says why members are only removed: the pool, its MachinePool or its Cluster is
	// being deleted. It is empty while none is.
	frozen string

	hostMachines []infrav1.HostMachine
	machines     []clusterv1.Machine
	// machineAt is the index in machines by the name of the HostMachine.
	machineAt map[string]int

	// revision stands for what members are made from now; when it is empty, unknown
	// says why.
	revision, unknown string
	// fingerprint is the part of the revision that the bootstrap data is.
	fingerprint string
	// outOfDate says why the revision is about to change; empty when it isn't.
	outOfDate string
	// hosts are what was seen of hosts; nil when the strategy needs none of it.
	hosts *hostView
	// agents are what was seen of the agents of members' hosts, by the name of the HostMachine.
	agents map[string]agentView
	// plan is the last one that was made; planned is false before the first.
	plan    pool.Plan
	planned bool
	// stalled is true when the progress deadline had passed at the begin.
	stalled bool
	// wasRollingOut is the reason of the condition RollingOut at the begin.
	wasRollingOut string
	// helper writes at the end what the phases changed of the pool.
	helper *patch.Helper
	// partial is true when a phase failed: the later ones saw nothing.
	partial bool
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

func newScope(pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool, cluster *clusterv1.Cluster) *scope {
	s := &scope{pool: pool, machinePool: machinePool, cluster: cluster, clusterName: pool.Labels[clusterv1.ClusterNameLabel]}
	if machinePool != nil {
		s.clusterName = machinePool.Spec.ClusterName
	}
	s.frozen = placement.PoolLeaving(pool, machinePool, cluster)
	s.wasRollingOut = rollingOutReason(pool)
	return s
}

// deleting says whether the pool is to lose all its members.
func (s *scope) deleting() bool {
	return s.machinePool == nil || !s.pool.DeletionTimestamp.IsZero()
}

// desired is the number of machines the pool should have.
func (s *scope) desired() int {
	if s.deleting() || !s.machinePool.DeletionTimestamp.IsZero() {
		return 0
	}
	return int(ptr.Deref(s.machinePool.Spec.Replicas, 1))
}

// external says whether somebody else manages the number of members. A pool that is
// not provisioned yet, or has no member, begins with the replicas it was given.
func (s *scope) external() bool {
	return !s.deleting() && s.machinePool.DeletionTimestamp.IsZero() && s.pool.Status.Ready && len(s.hostMachines) > 0 && annotations.ReplicasManagedByExternalAutoscaler(s.machinePool)
}

// version is the Kubernetes version members are made with now.
func (s *scope) version() string {
	if s.machinePool == nil {
		return ""
	}
	return s.machinePool.Spec.Template.Spec.Version
}

// deadline is when the rollout under way counts as stalled; zero without one.
func (s *scope) deadline() time.Time {
	rolling := s.pool.Status.Rollout
	if rolling.LastProgressTime.IsZero() || rolling.Version != s.version() || rolling.Revision != s.revision {
		return time.Time{}
	}
	return rolling.LastProgressTime.Add(pool.ProgressDeadline(s.pool.Spec.Strategy))
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
	s.machineAt = make(map[string]int, len(s.machines))
	for i := range s.machines {
		s.machineAt[s.machines[i].Spec.InfrastructureRef.Name] = i
	}
	return nil
}

// machineOf returns the Machine of a HostMachine, or nil.
func (s *scope) machineOf(hostMachine string) *clusterv1.Machine {
	if i, found := s.machineAt[hostMachine]; found {
		return &s.machines[i]
	}
	return nil
}

// confirm reads past the cache, before the pool changes anything but to remove members,
// that neither it nor its MachinePool nor its Cluster is being deleted. The scope is frozen
// when one is.
func (r *Reconciler) confirm(ctx context.Context, s *scope) error {
	if s.frozen != "" {
		return nil
	}
	var err error
	s.frozen, err = placement.PoolLeaves(ctx, r.APIReader, s.pool, s.machinePool)
	return err
}

// members are those of the scope, with what was seen of their hosts.
func (s *scope) members() []pool.Member {
	members := pool.Observe(s.hostMachines, s.machines)
	for i := range s.hostMachines {
		m, member := &s.hostMachines[i], &members[i]
		if s.outgrown(m) {
			member.Revision = s.revision
		}
		if h := s.hosts.of(m); h != nil {
			member.Domain = s.hosts.domain(h)
			member.Upgradable = host.OfferOf(h, s.version(), s.hosts.release) != host.OfferNone
		}
		agent := s.agents[m.Name]
		member.Connected, member.UnbegunSince = agent.connected, agent.unbegunSince
	}
	return members
}
