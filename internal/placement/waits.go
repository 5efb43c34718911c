package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Waiting returns the requirements of each machine that waits for a host. It omits machines that name
// their host, which is free for nobody else.
func Waiting(ctx context.Context, c client.Reader, machines []infrav1.HostMachine) ([]*Requirements, error) {
	var waiting []*Requirements
	for i := range machines {
		if machines[i].Spec.HostName != "" {
			continue
		}
		requirements, err := waits(ctx, c, &machines[i])
		if err != nil {
			return nil, err
		}
		if requirements != nil {
			waiting = append(waiting, requirements)
		}
	}
	return waiting, nil
}

// lacksHost says whether a machine is still to claim a host. One that adopts a Node takes the host
// of that, which is not free.
func lacksHost(m *infrav1.HostMachine) bool {
	return m.DeletionTimestamp.IsZero() && m.Spec.ProviderID == "" && m.Spec.Adopt.HostName == ""
}

// waits returns the requirements of a machine that waits for a host; nil for a machine that has one
// or will get none, as when it is being deleted.
func waits(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (*Requirements, error) {
	if !lacksHost(m) {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}
	if err := c.Get(ctx, key, cluster); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get the Cluster of HostMachine %s: %w", m.Name, err)
	}
	owner, err := OwnerOf(ctx, c, m)
	if err != nil || owner == nil || Leaving(owner, cluster) != "" {
		return nil, err
	}
	request, err := RequestFor(ctx, c, m, owner, cluster)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	requirements, err := Parse(request)
	if err != nil {
		return nil, nil //nolint:nilerr // with malformed selectors it gets no host
	}
	return requirements, nil
}
