package hostmachine

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// request is what the machine asks of a host.
func (r *Reconciler) request(ctx context.Context, s *scope) (placement.Request, error) {
	hostCluster, err := r.hostCluster(ctx, s)
	if err != nil {
		return placement.Request{}, err
	}
	label := ""
	if hostCluster != nil {
		label = hostCluster.Spec.FailureDomainLabel
	}
	return placement.NewRequest(s.hostMachine.Spec, s.owner.version, s.owner.failureDomains, label), nil
}

// hostCluster is nil when the cluster has infrastructure of another provider.
func (r *Reconciler) hostCluster(ctx context.Context, s *scope) (*infrav1.HostCluster, error) {
	if s.cluster == nil || s.cluster.Spec.InfrastructureRef.Kind != "HostCluster" ||
		s.cluster.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	hostCluster := &infrav1.HostCluster{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
	if err := r.Client.Get(ctx, key, hostCluster); err != nil {
		return nil, fmt.Errorf("get HostCluster %s: %w", key.Name, err)
	}
	return hostCluster, nil
}

// candidates are all hosts of a namespace with the state of their agents. They are
// the cache's own objects, since thousands would be copied for each claim: they
// must not be changed.
func (r *Reconciler) candidates(ctx context.Context, namespace string) ([]placement.Candidate, error) {
	leases := &coordinationv1.LeaseList{}
	if err := r.Client.List(ctx, leases, client.InNamespace(namespace), client.HasLabels{infrav1.HostLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the heartbeats of hosts: %w", err)
	}
	now := r.Clock.Now()
	connected := make(map[string]bool, len(leases.Items))
	for i := range leases.Items {
		connected[leases.Items[i].Name] = host.Connect(&leases.Items[i], now).Connected
	}
	hosts := &infrav1.HostList{}
	if err := r.Client.List(ctx, hosts, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	leaving, err := r.leavingNodes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	candidates := make([]placement.Candidate, 0, len(hosts.Items))
	for i := range hosts.Items {
		h := &hosts.Items[i]
		candidates = append(candidates, placement.Candidate{Host: h, Connected: connected[h.Name], NodeLeaving: leaving[h.Name]})
	}
	return candidates, nil
}

// leavingNodes are the hosts whose Nodes Cluster API is yet to delete.
func (r *Reconciler) leavingNodes(ctx context.Context, namespace string) (map[string]bool, error) {
	machines := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	return placement.LeavingNodes(machines.Items), nil
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
