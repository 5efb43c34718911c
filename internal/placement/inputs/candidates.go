package inputs

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// Candidates are all hosts of a namespace. From a cache they are the cache's own objects,
// since thousands would be copied for each claim: they must not be changed.
func Candidates(ctx context.Context, c client.Reader, namespace string) ([]placement.Candidate, error) {
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
		candidates = append(candidates, placement.Candidate{Host: h, Connected: host.Connected(h), Former: formers.Of(h)})
	}
	return candidates, nil
}
