package hostmachine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// takeoverRetry is when to look again for a MachinePool that has yet to take over a
// providerID, besides the events that tell.
const takeoverRetry = 10 * time.Second

// awaitTakeover holds the operation back until no Node that it makes can be taken for a
// former one. Core's MachinePool deletes, by their names, the Nodes in status.nodeRefs
// whose providerID it does not list. So a host that had a claim before bootstraps once
// the MachinePool of its machine lists the new providerID, and no other one names the
// Node. Before its infrastructure is provisioned, core reads no list and names no Node.
func (r *Reconciler) awaitTakeover(ctx context.Context, s *scope) (bool, error) {
	if s.host.Spec.Desired != nil || s.owner == nil || s.cluster == nil {
		return true, nil
	}
	former, err := placement.PoolsNaming(ctx, r.Client, s.host)
	if err != nil {
		return false, err
	}
	why := former.Reason(s.cluster.Name, s.owner.MachinePool)
	if why == "" && s.owner.MachinePool != "" {
		named := former.NamedBy(s.cluster.Name, s.owner.MachinePool)
		if why, err = r.listed(ctx, s, named || s.host.Spec.ClaimGeneration > 1); err != nil {
			return false, err
		}
	}
	if why == "" {
		return true, nil
	}
	s.held = &waiting{infrav1.WaitingForMachinePoolReason, fmt.Sprintf("Host %s is claimed and bootstraps once this has passed: %s", s.host.Name, why)}
	s.requeueAfter = takeoverRetry
	return false, nil
}

// listed says why the MachinePool of a machine may still delete a Node of its host; empty
// when it cannot. reused is true for a host that may have had a Node before.
func (r *Reconciler) listed(ctx context.Context, s *scope, reused bool) (string, error) {
	if !reused {
		return "", nil
	}
	pool := &clusterv1.MachinePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: s.owner.MachinePool}, pool); err != nil {
		return "", fmt.Errorf("get MachinePool %s: %w", s.owner.MachinePool, err)
	}
	reads := ptr.Deref(pool.Status.Initialization.InfrastructureProvisioned, false) || len(pool.Status.NodeRefs) > 0
	if !reads || slices.Contains(pool.Spec.ProviderIDList, s.hostMachine.Spec.ProviderID) {
		return "", nil
	}
	return fmt.Sprintf("MachinePool %s has yet to take over the providerID, and may delete the Node until then", pool.Name), nil
}

// providerIDIndex finds a machine by its providerID.
const providerIDIndex = "spec.providerID"

func indexProviderID(o client.Object) []string {
	if m, ok := o.(*infrav1.HostMachine); ok && m.Spec.ProviderID != "" {
		return []string{m.Spec.ProviderID}
	}
	return nil
}
