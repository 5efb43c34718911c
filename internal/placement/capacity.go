package placement

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Matches says whether a host, free or not, meets the request.
func (c *Requirements) Matches(h *infrav1.Host) bool {
	r := c.request
	return c.Mismatch(h) == "" &&
		(len(r.FailureDomains) == 0 || slices.Contains(r.FailureDomains, host.FailureDomain(h, r.FailureDomainLabel)))
}

// Mismatch returns why a host is not what the request wishes for by labels and capacity; empty when
// it is.
func (c *Requirements) Mismatch(h *infrav1.Host) string {
	if !c.selector.Matches(host.Labels(h)) {
		return notSelected
	}
	return c.rejectCapacity(h)
}

// Capacity tells the cluster autoscaler what a machine would have, so that it can scale from zero: the
// least of each resource over the hosts of a namespace that match and are not held back, since nobody
// knows which of them it will be. Both are empty without such a host; what differs between hosts and
// can't be compared is omitted.
func Capacity(ctx context.Context, c client.Reader, namespace string, request Request) (corev1.ResourceList, infrav1.NodeInfo, error) {
	requirements, err := Parse(request)
	if err != nil {
		return nil, infrav1.NodeInfo{}, err
	}
	hosts := &infrav1.HostList{}
	if err := c.List(ctx, hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, infrav1.NodeInfo{}, fmt.Errorf("list hosts: %w", err)
	}
	capacity, info := requirements.Capacity(hosts.Items)
	return capacity, info, nil
}

// Capacity is the least of hosts.
func (c *Requirements) Capacity(hosts []infrav1.Host) (corev1.ResourceList, infrav1.NodeInfo) {
	var least corev1.ResourceList
	architectures := map[string]bool{}
	for i := range hosts {
		h := &hosts[i]
		if !c.Matches(h) || host.HeldBack(h) || c.rejectVersion(h) != "" {
			continue
		}
		architectures[h.Status.Inventory.Architecture] = true
		for name, quantity := range h.Status.Capacity {
			if least == nil {
				least = corev1.ResourceList{}
			}
			if known, found := least[name]; !found || quantity.Cmp(known) < 0 {
				least[name] = quantity
			}
		}
	}
	if len(architectures) == 0 {
		return nil, infrav1.NodeInfo{}
	}
	info := infrav1.NodeInfo{OperatingSystem: "linux"}
	for architecture := range architectures {
		if len(architectures) == 1 {
			info.Architecture = architecture
		}
	}
	return least, info
}
