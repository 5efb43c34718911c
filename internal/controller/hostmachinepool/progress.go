package hostmachinepool

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// recordProgress notes how far the rollout is, from which the progress deadline
// counts. Any machine that becomes available is progress, also an old one: it may be
// what the rollout waited for.
func (r *Reconciler) recordProgress(_ context.Context, s *scope) error {
	status := &s.pool.Status
	available := int32(s.plan.Available)
	if s.revision == "" {
		// Whether there is a rollout is not known now.
		status.AvailableReplicas = ptr.To(available)
		return nil
	}
	recovered := available > ptr.Deref(status.AvailableReplicas, 0)
	status.AvailableReplicas = ptr.To(available)
	status.UpdatedReplicas = ptr.To(int32(s.plan.Updated))
	status.Revision = s.revision
	if s.plan.Outdated == 0 || s.pool.Spec.Strategy.Type == infrav1.RolloutTypeOnDelete {
		status.Rollout = infrav1.HostMachinePoolRollout{}
		return nil
	}
	before := status.Rollout
	now := infrav1.HostMachinePoolRollout{
		Version: s.version(), Revision: s.revision,
		OutdatedReplicas:  ptr.To(int32(s.plan.Outdated)),
		AvailableReplicas: ptr.To(int32(s.plan.UpdatedAvailable)),
		LastProgressTime:  before.LastProgressTime,
	}
	if recovered || before.Version != now.Version || before.Revision != now.Revision ||
		*now.OutdatedReplicas < ptr.Deref(before.OutdatedReplicas, 0) || *now.AvailableReplicas > ptr.Deref(before.AvailableReplicas, 0) {
		now.LastProgressTime = metav1.NewTime(r.Clock.Now())
	}
	status.Rollout = now
	return nil
}
