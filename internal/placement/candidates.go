package placement

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Candidates are all hosts of a namespace. From a cache they are the cache's own objects,
// since thousands would be copied for each claim: they must not be changed.
func Candidates(ctx context.Context, c client.Reader, namespace string) ([]Candidate, error) {
	hosts := &infrav1.HostList{}
	if err := c.List(ctx, hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	formers, err := FormersOf(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, 0, len(hosts.Items))
	for i := range hosts.Items {
		h := &hosts.Items[i]
		namedBy, err := namedBy(ctx, c, formers.naming[h.Name], h)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, Candidate{Host: h, Connected: host.Connected(h), Former: formers.Of(h), NamedBy: namedBy})
	}
	return candidates, nil
}

// namedBy returns the first of the machines that name a host which can claim it once it is free;
// empty when there is none. A machine that never can reserves nothing.
func namedBy(ctx context.Context, c client.Reader, machines []*infrav1.HostMachine, h *infrav1.Host) (string, error) {
	for _, m := range machines {
		chooser, err := waits(ctx, c, m)
		if err != nil {
			return "", err
		}
		if chooser != nil && chooser.Suits(h) {
			return m.Name, nil
		}
	}
	return "", nil
}
