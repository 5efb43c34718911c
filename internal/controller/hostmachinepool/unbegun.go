package hostmachinepool

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/pool"
)

// unbegunSince says since when the host of a member is silent, if nothing can have been
// begun there; zero if it may have been, and for a member that is young. That takes two
// witnesses, neither of which is an absence alone: the agent, whose last word is that the
// host is clean, and core, which reaches the cluster and knows the machine of each of its
// Nodes. Without an operation the first is enough, since no agent begins without one.
func (r *Reconciler) unbegunSince(ctx context.Context, s *scope, m *infrav1.HostMachine) (time.Time, error) {
	if m.Spec.ProviderID == "" {
		return time.Time{}, nil
	}
	if left := m.CreationTimestamp.Add(pool.BeginDeadline).Sub(r.now()); left > 0 {
		s.requeue(left)
		return time.Time{}, nil
	}
	// Past the cache only when that says so.
	h, err := unbegun(ctx, r.Client, s, m)
	if err != nil || h == nil {
		return time.Time{}, err
	}
	if h, err = unbegun(ctx, r.APIReader, s, m); err != nil || h == nil {
		return time.Time{}, err
	}
	return conditions.Get(h, infrav1.AgentConnectedCondition).LastTransitionTime.Time, nil
}

// unbegun returns the host of a member if nothing can have been begun there. A Host that is
// gone says nothing of the host.
func unbegun(ctx context.Context, c client.Reader, s *scope, m *infrav1.HostMachine) (*infrav1.Host, error) {
	_, name, claimID, ok := host.ParseProviderID(m.Spec.ProviderID)
	if !ok {
		return nil, nil
	}
	h := &infrav1.Host{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, h); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !host.Unbegun(h) || h.Spec.Claim.ClaimID != claimID || (h.Spec.Desired != nil && s.mayBeNode(m)) {
		return nil, nil
	}
	return h, nil
}

// mayBeNode says whether a member may be a Node of the cluster as far as core can tell.
// Core looks for the Nodes of all providerIDs that the MachinePool lists; each that it
// finds has to be that of another member.
func (s *scope) mayBeNode(m *infrav1.HostMachine) bool {
	if s.cluster == nil || !conditions.IsTrue(s.cluster, clusterv1.ClusterRemoteConnectionProbeCondition) ||
		!slices.Contains(s.machinePool.Spec.ProviderIDList, m.Spec.ProviderID) {
		return true
	}
	others := map[string]bool{}
	for i := range s.machines {
		machine := &s.machines[i]
		if machine.Spec.InfrastructureRef.Name == m.Name {
			if machine.Status.NodeRef.IsDefined() {
				return true
			}
			continue
		}
		if machine.Status.NodeRef.IsDefined() {
			others[machine.Status.NodeRef.Name] = true
		}
	}
	for _, node := range s.machinePool.Status.NodeRefs {
		if !others[node.Name] {
			return true
		}
	}
	return false
}
