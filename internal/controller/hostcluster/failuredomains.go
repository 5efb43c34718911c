package hostcluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// maxFailureDomains is the limit of the contract.
const maxFailureDomains = 100

func (r *Reconciler) collectFailureDomains(ctx context.Context, s *scope) error {
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(s.hostCluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	s.hosts = hosts.Items
	worth, err := r.controlPlaneHosts(ctx, s)
	if err != nil {
		return err
	}
	domains := failureDomains(s.hostCluster.Spec, hosts.Items, worth)
	if len(domains) > maxFailureDomains {
		ctrl.LoggerFrom(ctx).Info("Too many failure domains, the last ones by name are left out", "found", len(domains), "limit", maxFailureDomains)
		domains = domains[:maxFailureDomains]
	}
	s.hostCluster.Status.FailureDomains = domains
	return nil
}

// failureDomains are the domains that the spec lists, else those that hosts name, by name.
// The control plane may use those of them that have a free host for it; where none has,
// those with any host for it. What the spec says of that, counts.
func failureDomains(spec infrav1.HostClusterSpec, hosts []infrav1.Host, worth func(*infrav1.Host) standing) []clusterv1.FailureDomain {
	best := map[string]standing{}
	for i := range hosts {
		if name := host.FailureDomain(&hosts[i], spec.FailureDomainLabel); name != "" {
			best[name] = max(best[name], worth(&hosts[i]))
		}
	}
	domains := slices.Clone(spec.FailureDomains)
	if len(domains) == 0 {
		for name := range maps.Keys(best) {
			domains = append(domains, clusterv1.FailureDomain{Name: name})
		}
	}
	wanted := later
	for _, domain := range domains {
		if ptr.Deref(domain.ControlPlane, true) {
			wanted = max(wanted, best[domain.Name])
		}
	}
	for i := range domains {
		if domains[i].ControlPlane == nil {
			domains[i].ControlPlane = ptr.To(best[domains[i].Name] >= wanted)
		}
	}
	slices.SortFunc(domains, func(a, b clusterv1.FailureDomain) int { return cmp.Compare(a.Name, b.Name) })
	return domains
}
