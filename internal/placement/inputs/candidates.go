package inputs

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// Connected says which agents are connected.
type Connected func(*infrav1.Host) bool

// Reported takes the word of the Host controller. Its condition may be a moment old.
func Reported(h *infrav1.Host) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AgentConnectedCondition)
}

// Heartbeats judges the heartbeats of a namespace as they are now.
func Heartbeats(ctx context.Context, c client.Reader, namespace string, now time.Time) (Connected, error) {
	leases := &coordinationv1.LeaseList{}
	if err := c.List(ctx, leases, client.InNamespace(namespace), client.HasLabels{infrav1.HostLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the heartbeats of hosts: %w", err)
	}
	connected := make(map[string]bool, len(leases.Items))
	for i := range leases.Items {
		connected[leases.Items[i].Name] = host.Connect(&leases.Items[i], now).Connected
	}
	return func(h *infrav1.Host) bool { return connected[h.Name] }, nil
}

// Candidates are all hosts of a namespace. From a cache they are the cache's own objects,
// since thousands would be copied for each claim: they must not be changed.
func Candidates(ctx context.Context, c client.Reader, namespace string, connected Connected) ([]placement.Candidate, error) {
	hosts := &infrav1.HostList{}
	if err := c.List(ctx, hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	formers, err := FormersOf(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	candidates := make([]placement.Candidate, 0, len(hosts.Items))
	for i := range hosts.Items {
		h := &hosts.Items[i]
		candidates = append(candidates, placement.Candidate{Host: h, Connected: connected(h), Former: formers.Of(h)})
	}
	return candidates, nil
}
