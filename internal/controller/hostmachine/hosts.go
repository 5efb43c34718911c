package hostmachine

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
)

// candidates are all hosts of a namespace, from the cache: they must not be changed.
func (r *Reconciler) candidates(ctx context.Context, namespace string) ([]placement.Candidate, error) {
	connected, err := inputs.Heartbeats(ctx, r.Client, namespace, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	return inputs.Candidates(ctx, r.Client, namespace, connected)
}

// connection reads the heartbeat of one host.
func (r *Reconciler) connection(ctx context.Context, reader client.Reader, h *infrav1.Host) (host.Connection, error) {
	lease := &coordinationv1.Lease{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(h), lease); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return host.Connection{}, nil
		}
		return host.Connection{}, fmt.Errorf("get the heartbeat of Host %s: %w", h.Name, err)
	}
	return host.Connect(lease, r.Clock.Now()), nil
}
