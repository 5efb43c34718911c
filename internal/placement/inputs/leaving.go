package inputs

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/host"
)

// LeavingNodes are the hosts of a namespace, by name, whose Nodes Cluster API is yet to
// delete: those of Machines that are being deleted.
func LeavingNodes(ctx context.Context, c client.Reader, namespace string) (map[string]bool, error) {
	machines := &clusterv1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	leaving := map[string]bool{}
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		if _, name, _, ok := host.ParseProviderID(machines.Items[i].Spec.ProviderID); ok {
			leaving[name] = true
		}
	}
	return leaving, nil
}
