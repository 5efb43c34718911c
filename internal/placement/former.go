package placement

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// formers are the leftovers in a namespace of the machines that had hosts before.
type formers struct {
	// machines name, by host, who has a providerID of it and for which claim.
	machines map[string][]hostsNamed
	// naming are the HostMachines that name their host and have none yet, by that host.
	naming map[string][]*infrav1.HostMachine
	pools  nodePools
}

type hostsNamed struct{ machine, claimID string }

func formersOf(ctx context.Context, c client.Reader, namespace string) (*formers, error) {
	hostMachines, machines := &infrav1.HostMachineList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{hostMachines, machines} {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	pools, err := poolsByNode(ctx, c, namespace)
	f := &formers{machines: map[string][]hostsNamed{}, naming: map[string][]*infrav1.HostMachine{}, pools: pools}
	for i := range hostMachines.Items {
		m := &hostMachines.Items[i]
		f.add("HostMachine "+m.Name, m.Spec.ProviderID)
		if m.Spec.HostName != "" && m.Spec.ProviderID == "" {
			f.naming[m.Spec.HostName] = append(f.naming[m.Spec.HostName], m)
		}
	}
	for i := range machines.Items {
		f.add("Machine "+machines.Items[i].Name, machines.Items[i].Spec.ProviderID)
	}
	return f, err
}

func (f *formers) add(machine, providerID string) {
	if _, name, claimID, ok := host.ParseProviderID(providerID); ok {
		f.machines[name] = append(f.machines[name], hostsNamed{machine, claimID})
	}
}

func (f *formers) of(h *infrav1.Host) Former {
	former := f.pools.of(h)
	for _, m := range f.machines[h.Name] {
		if h.Spec.Claim == nil || h.Spec.Claim.ClaimID != m.claimID {
			former.Machine = m.machine
		}
	}
	return former
}

// PoolsNaming are the MachinePools that name a Node of one host.
func PoolsNaming(ctx context.Context, c client.Reader, h *infrav1.Host) (Former, error) {
	list := &clusterv1.MachinePoolList{}
	if err := c.List(ctx, list, client.InNamespace(h.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Former{}, fmt.Errorf("list MachinePools: %w", err)
	}
	nodes, former := host.NodeNames(h), Former{}
	for i := range list.Items {
		p := &list.Items[i]
		if slices.ContainsFunc(p.Status.NodeRefs, func(ref corev1.ObjectReference) bool { return slices.Contains(nodes, ref.Name) }) {
			former.Pools = append(former.Pools, PoolReference{Cluster: p.Spec.ClusterName, Name: p.Name})
		}
	}
	return former, nil
}

// nodePools are the MachinePools that name a Node, by its name.
type nodePools map[string][]PoolReference

func poolsByNode(ctx context.Context, c client.Reader, namespace string) (nodePools, error) {
	list := &clusterv1.MachinePoolList{}
	if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MachinePools: %w", err)
	}
	pools := nodePools{}
	for i := range list.Items {
		p := &list.Items[i]
		for _, node := range p.Status.NodeRefs {
			pools[node.Name] = append(pools[node.Name], PoolReference{Cluster: p.Spec.ClusterName, Name: p.Name})
		}
	}
	return pools, nil
}

func (p nodePools) of(h *infrav1.Host) Former {
	var former Former
	for _, node := range host.NodeNames(h) {
		former.Pools = append(former.Pools, p[node]...)
	}
	return former
}
