package hostcluster

import (
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
	if err := r.Client.List(ctx, hosts, client.InNamespace(s.hostCluster.Namespace)); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	domains := failureDomains(hosts.Items, s.hostCluster.Spec.FailureDomainLabel)
	if len(domains) > maxFailureDomains {
		ctrl.LoggerFrom(ctx).Info("Too many failure domains, the last ones by name are left out", "found", len(domains), "limit", maxFailureDomains)
		domains = domains[:maxFailureDomains]
	}
	s.hostCluster.Status.FailureDomains = domains
	s.hosts = hosts.Items
	return nil
}

// failureDomains are the domains that hosts name, sorted. All of them may hold
// control planes: every host is alike in that.
func failureDomains(hosts []infrav1.Host, label string) []clusterv1.FailureDomain {
	names := map[string]bool{}
	for i := range hosts {
		if name := host.FailureDomain(&hosts[i], label); name != "" {
			names[name] = true
		}
	}
	domains := make([]clusterv1.FailureDomain, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		domains = append(domains, clusterv1.FailureDomain{Name: name, ControlPlane: ptr.To(true)})
	}
	return domains
}
