package placement

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/host"
)

// LeavingNodes are the hosts, by name, whose Nodes Cluster API is yet to delete: those
// of Machines that are being deleted. All Machines are those of one namespace.
func LeavingNodes(machines []clusterv1.Machine) map[string]bool {
	leaving := map[string]bool{}
	for i := range machines {
		if machines[i].DeletionTimestamp.IsZero() {
			continue
		}
		if _, name, _, ok := host.ParseProviderID(machines[i].Spec.ProviderID); ok {
			leaving[name] = true
		}
	}
	return leaving
}
