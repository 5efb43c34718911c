package run

import (
	"context"

	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// adopt takes over what the policy says now.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	if !plan.Adopt(s.run, s.policy, s.cluster, r.Clock.Now()) {
		return nil
	}
	if err := r.store(ctx, s); err != nil {
		return err
	}
	r.eventf(s, normal, "PolicyAdopted", "Adopt", "%s: takes over LifecyclePolicy %s as it is now", s.run.Spec.Hook, s.policy.Name)
	return nil
}
