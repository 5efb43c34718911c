package hostmachinepool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/pool"
)

// hostView is what a plan needs to know of hosts.
type hostView struct {
	// key of the spread.
	key    string
	byName map[string]*infrav1.Host
	// release is the KubernetesRelease of the version of the pool; nil without one.
	release *infrav1.KubernetesReleaseSpec
	// claimable are the hosts that members could claim now; free is their number, less what
	// other machines wait for; domains are those of the spread.
	claimable []*infrav1.Host
	free      int
	domains   []pool.Domain

	snapshot     *placement.Snapshot
	requirements *placement.Requirements
}

// of returns the host a member has claimed, or nil.
func (v *hostView) of(m *infrav1.HostMachine) *infrav1.Host {
	if v == nil {
		return nil
	}
	_, name, _, ok := host.ParseProviderID(m.Spec.ProviderID)
	if !ok {
		return nil
	}
	return v.byName[name]
}

func (v *hostView) domain(h *infrav1.Host) string { return host.FailureDomain(h, v.key) }

// readHosts looks at the hosts, for a plan that depends on them.
func (r *Reconciler) readHosts(ctx context.Context, s *scope) error {
	spec := s.pool.Spec
	asks := spec.HostSelector != nil || len(spec.MinCapacity) > 0
	switch {
	case s.givesUpHosts():
		return r.countFreeHosts(ctx, s, r.Client)
	case asks, spec.Spread != nil, spec.Strategy.Type == infrav1.RolloutTypeInPlace,
		slices.ContainsFunc(s.hostMachines, func(m infrav1.HostMachine) bool { return m.Labels[infrav1.RevisionLabel] != s.revision }):
		return r.lookAtHosts(ctx, s)
	}
	return nil
}

// givesUpHosts reports whether a free host may cost a member its own.
func (s *scope) givesUpHosts() bool {
	return s.pool.Spec.Strategy.NoSpareHost == infrav1.NoSpareHostInPlace ||
		slices.ContainsFunc(s.hostMachines, func(m infrav1.HostMachine) bool { return pool.Evacuating(&m) })
}

func (r *Reconciler) lookAtHosts(ctx context.Context, s *scope) error {
	snapshot, err := placement.Read(ctx, r.Client, s.pool.Namespace)
	if err != nil {
		return err
	}
	request, err := r.request(ctx, s)
	if err != nil {
		return err
	}
	s.hosts, err = viewHosts(snapshot, request, s.pool.Spec.Spread)
	return err
}

// countFreeHosts counts the hosts that a new member could claim now, less those that machines
// outside of the pool wait for, and those that the control plane needs: a host is the spare of one
// machine. It reads these machines from reader. The planners subtract the pool's own.
func (r *Reconciler) countFreeHosts(ctx context.Context, s *scope, reader client.Reader) error {
	if s.hosts == nil {
		if err := r.lookAtHosts(ctx, s); err != nil {
			return err
		}
	}
	if len(s.hosts.claimable) == 0 {
		return nil
	}
	machines := &infrav1.HostMachineList{}
	if err := reader.List(ctx, machines, client.InNamespace(s.pool.Namespace)); err != nil {
		return fmt.Errorf("list the machines that wait for a host: %w", err)
	}
	ahead, err := placement.Ahead(ctx, r.Client, s.cluster)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(machines.Items, func(m infrav1.HostMachine) bool {
		_, ofControlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		return slices.ContainsFunc(s.hostMachines, func(own infrav1.HostMachine) bool { return own.Name == m.Name }) ||
			len(ahead) > 0 && ofControlPlane && m.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
	})
	waiting, err := placement.Waiting(ctx, r.Client, others)
	if err != nil {
		return err
	}
	for _, request := range ahead {
		if requirements, err := placement.Parse(request); err == nil {
			waiting = append(waiting, requirements)
		}
	}
	s.hosts.count(waiting)
	return nil
}

// request is what a new member would ask of a host.
func (r *Reconciler) request(ctx context.Context, s *scope) (placement.Request, error) {
	return placement.RequestForMember(ctx, r.Client, s.pool, s.machinePool, s.cluster)
}

func viewHosts(snapshot *placement.Snapshot, request placement.Request, spread *infrav1.HostMachinePoolSpread) (*hostView, error) {
	requirements, err := placement.Parse(request)
	if err != nil {
		return nil, err
	}
	view := &hostView{byName: make(map[string]*infrav1.Host, len(snapshot.Hosts)), release: request.Release, snapshot: snapshot, requirements: requirements}
	if spread != nil {
		view.key = spread.Key
	}
	domains := map[string]bool{}
	for _, h := range snapshot.Hosts {
		view.byName[h.Name] = h
		if snapshot.Judge(requirements, h).Fits() {
			view.claimable = append(view.claimable, h)
		}
		if domain := view.domain(h); spread != nil && domain != "" && requirements.Matches(h) {
			domains[domain] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		view.domains = append(view.domains, pool.Domain{Name: name})
	}
	view.count(nil)
	return view, nil
}

// count counts the claimable hosts, less those that other machines which wait may claim.
func (v *hostView) count(others []*placement.Requirements) {
	v.free = len(v.claimable) - v.snapshot.Taken(others, v.claimable)
	for i := range v.domains {
		within := slices.DeleteFunc(slices.Clone(v.claimable), func(h *infrav1.Host) bool { return v.domain(h) != v.domains[i].Name })
		v.domains[i].Free = len(within) - v.snapshot.Taken(others, within)
	}
}

// reportCapacity tells the cluster autoscaler what a machine of the pool would have.
func (r *Reconciler) reportCapacity(ctx context.Context, s *scope) error {
	key := capacityKey{client.ObjectKeyFromObject(s.pool)}
	if _, recent := r.memory.get(key, r.Clock); recent {
		return nil
	}
	request, err := r.request(ctx, s)
	if err != nil {
		return err
	}
	capacity, info, err := placement.Capacity(ctx, r.Client, s.pool.Namespace, request)
	if err != nil {
		return err
	}
	// Quantities that are equal but written differently must not be written again.
	if !equality.Semantic.DeepEqual(s.pool.Status.Capacity, capacity) {
		s.pool.Status.Capacity = capacity
	}
	s.pool.Status.NodeInfo = info
	r.memory.put(key, true, r.Clock)
	return nil
}
