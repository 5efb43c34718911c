package hostmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
	"github.com/slipway-dev/slipway/internal/rollout"
)

// hostView is what a plan needs to know of hosts.
type hostView struct {
	// key of the spread.
	key    string
	byName map[string]*infrav1.Host
	// release is the KubernetesRelease of the version of the pool; nil without one.
	release *infrav1.KubernetesReleaseSpec
	// free is the number of hosts that members could claim now; domains are those
	// of the spread.
	free    int
	domains []rollout.Domain
	chooser *placement.Chooser
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
	if !asks && spec.Spread == nil && spec.Strategy.Type != infrav1.RolloutTypeInPlace && spec.Strategy.NoSpareHost != infrav1.NoSpareHostInPlace &&
		!slices.ContainsFunc(s.hostMachines, func(m infrav1.HostMachine) bool {
			return evacuating(&m) || m.Labels[infrav1.RevisionLabel] != s.revision
		}) {
		return nil
	}
	hosts, err := inputs.Candidates(ctx, r.Client, s.pool.Namespace)
	if err != nil {
		return err
	}
	request, err := r.request(ctx, s)
	if err != nil {
		return err
	}
	s.hosts, err = viewHosts(hosts, request, spec.Spread)
	return err
}

// request is what a new member would ask of a host.
func (r *Reconciler) request(ctx context.Context, s *scope) (placement.Request, error) {
	return inputs.RequestForMember(ctx, r.Client, s.pool, s.machinePool, s.cluster)
}

func viewHosts(hosts []placement.Candidate, request placement.Request, spread *infrav1.HostMachinePoolSpread) (*hostView, error) {
	chooser, err := placement.NewChooser(request)
	if err != nil {
		return nil, err
	}
	view := &hostView{byName: make(map[string]*infrav1.Host, len(hosts)), release: request.Release, chooser: chooser}
	if spread != nil {
		view.key = spread.Key
	}
	claimable := map[string]bool{}
	for _, fit := range chooser.Choose(hosts).Ranked {
		claimable[fit.Host.Name] = true
	}
	view.free = len(claimable)
	domains := map[string]int{}
	for i := range hosts {
		h := hosts[i].Host
		view.byName[h.Name] = h
		free := claimable[h.Name]
		domain := view.domain(h)
		if spread == nil || domain == "" || !chooser.Suits(h) {
			continue
		}
		if domains[domain] += 0; free {
			domains[domain]++
		}
	}
	for name, free := range domains {
		view.domains = append(view.domains, rollout.Domain{Name: name, Free: free})
	}
	slices.SortFunc(view.domains, func(x, y rollout.Domain) int { return cmp.Compare(x.Name, y.Name) })
	return view, nil
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
	chooser, err := placement.NewChooser(request)
	if err != nil {
		return err
	}
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(s.pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	capacity, info := chooser.Capacity(hosts.Items)
	// Quantities that are equal but written differently must not be written again.
	if !equality.Semantic.DeepEqual(s.pool.Status.Capacity, capacity) {
		s.pool.Status.Capacity = capacity
	}
	s.pool.Status.NodeInfo = info
	r.memory.put(key, true, r.Clock)
	return nil
}
