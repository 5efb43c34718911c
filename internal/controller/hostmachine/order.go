package hostmachine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// syncOrder orders the bootstrap of the host that the providerID names, so that no
// second host ever begins. Until the agent is done, it keeps the name of the
// bootstrap Secret current; then it takes it away: an agent may read the Secret only
// while it is named.
func (r *Reconciler) syncOrder(ctx context.Context, s *scope) (bool, error) {
	if host.Releasing(s.host) || (s.host.Spec.Desired == nil && s.owner == nil) {
		return true, nil
	}
	wanted, err := r.order(ctx, s)
	if err != nil {
		return false, err
	}
	if equality.Semantic.DeepEqual(s.host.Spec.Desired, wanted) {
		return true, nil
	}
	changed := s.host.DeepCopy()
	changed.Spec.Desired = wanted
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("order the bootstrap of Host %s: %w", s.host.Name, err)
	}
	return true, nil
}

// order is made once; of an order that stands, only the Secret may change.
func (r *Reconciler) order(ctx context.Context, s *scope) (*infrav1.HostDesired, error) {
	order := s.host.Spec.Desired.DeepCopy()
	if order == nil {
		var err error
		if order, err = r.newOrder(ctx, s); err != nil {
			return nil, err
		}
	}
	switch {
	case ptr.Deref(s.hostMachine.Status.Initialization.Provisioned, false):
		order.BootstrapSecretName = ""
	case s.owner != nil && s.owner.bootstrapSecret != "":
		order.BootstrapSecretName = s.owner.bootstrapSecret
	}
	return order, nil
}

func (r *Reconciler) newOrder(ctx context.Context, s *scope) (*infrav1.HostDesired, error) {
	order := &infrav1.HostDesired{
		Phase:       infrav1.HostDesiredBootstrapped,
		OperationID: host.BootstrapOperationID(s.hostMachine.Spec.ClaimID),
		Version:     s.owner.version,
		ProviderID:  s.hostMachine.Spec.ProviderID,
	}
	if !s.owner.controlPlane {
		return order, nil
	}
	hostCluster, err := r.hostCluster(ctx, s)
	if err != nil {
		return nil, err
	}
	if hostCluster != nil && hostCluster.Spec.Endpoint.Type != infrav1.EndpointExternal {
		order.VirtualIP = hostCluster.Spec.ControlPlaneEndpoint.Host
	}
	return order, nil
}
