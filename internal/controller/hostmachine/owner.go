package hostmachine

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capilabels "sigs.k8s.io/cluster-api/util/labels"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// owner is what a HostMachine needs to know of its Machine or MachinePool.
type owner struct {
	// description names it in messages, for example "MachinePool workers".
	description     string
	version         string
	failureDomains  []string
	bootstrapSecret string
	controlPlane    bool
}

// findOwner waits until core Cluster API has all that a host needs: an owner, the
// infrastructure of the cluster, and bootstrap data. A machine that already has
// its host goes on without them, since a deleted owner must not hide its state.
func (r *Reconciler) findOwner(ctx context.Context, s *scope) (bool, error) {
	claimed := s.hostMachine.Spec.ProviderID != ""
	if s.cluster == nil {
		s.waiting = &waiting{reasonWaitingForCluster, "Waiting for Cluster API to set the owner and the label " + clusterv1.ClusterNameLabel}
		return claimed, nil
	}
	found, err := r.owner(ctx, s.hostMachine)
	if err != nil {
		return false, err
	}
	s.owner = found
	switch {
	case found == nil:
		s.waiting = &waiting{reasonWaitingForOwner, "Waiting for a Machine or MachinePool that owns this HostMachine"}
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		s.waiting = &waiting{clusterv1.WaitingForClusterInfrastructureReadyReason, fmt.Sprintf("Waiting for the infrastructure of Cluster %s", s.cluster.Name)}
	case found.bootstrapSecret == "" && !s.adopts():
		s.waiting = &waiting{clusterv1.WaitingForBootstrapDataReason, fmt.Sprintf("Waiting for the bootstrap data of %s", found.description)}
	default:
		return true, nil
	}
	return claimed, nil
}

func (r *Reconciler) owner(ctx context.Context, m *infrav1.HostMachine) (*owner, error) {
	if capilabels.IsMachinePoolOwned(m) {
		return r.poolOwner(ctx, m)
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, m.ObjectMeta)
	if err != nil || machine == nil {
		return nil, client.IgnoreNotFound(err)
	}
	found := &owner{
		description:     "Machine " + machine.Name,
		version:         machine.Spec.Version,
		bootstrapSecret: ptr.Deref(machine.Spec.Bootstrap.DataSecretName, ""),
		controlPlane:    util.IsControlPlaneMachine(machine),
	}
	if machine.Spec.FailureDomain != "" {
		found.failureDomains = []string{machine.Spec.FailureDomain}
	}
	return found, nil
}

// poolOwner reads version and bootstrap data from the MachinePool: the Machine of
// a pool member is made from the HostMachine, later, and has neither.
func (r *Reconciler) poolOwner(ctx context.Context, m *infrav1.HostMachine) (*owner, error) {
	pool, err := r.hostMachinePool(ctx, m)
	if err != nil || pool == nil {
		return nil, err
	}
	machinePool, err := util.GetOwnerMachinePool(ctx, r.Client, pool.ObjectMeta)
	if err != nil || machinePool == nil {
		return nil, client.IgnoreNotFound(err)
	}
	template := machinePool.Spec.Template.Spec
	return &owner{
		description:     "MachinePool " + machinePool.Name,
		version:         template.Version,
		failureDomains:  machinePool.Spec.FailureDomains,
		bootstrapSecret: ptr.Deref(template.Bootstrap.DataSecretName, ""),
	}, nil
}

func (r *Reconciler) hostMachinePool(ctx context.Context, m *infrav1.HostMachine) (*infrav1.HostMachinePool, error) {
	for _, ref := range m.OwnerReferences {
		if ref.Kind != "HostMachinePool" {
			continue
		}
		pool := &infrav1.HostMachinePool{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, pool)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return pool, nil
	}
	return nil, nil
}
