package run

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/match"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// cancel gives the run up when its policy, its Cluster or its upgrade does not want it
// any more. A policy that cannot be read changes nothing.
func (r *Reconciler) cancel(ctx context.Context, s *scope) error {
	reason := plan.CancelReason(s.run, s.policy, s.cluster, r.Clock.Now())
	var err error
	if reason == "" && plan.Open(s.run, s.cluster, r.Clock.Now()) {
		reason, err = r.unmatched(ctx, s)
	}
	if err != nil {
		s.stopped, s.held = true, err.Error()
		return nil //nolint:nilerr // the run is held and says why
	}
	if reason == "" {
		return nil
	}
	if current := plan.Current(s.run); current != nil {
		if left := r.stop(ctx, s, current); left != "" {
			ctrl.LoggerFrom(ctx).Info("A cancelled run leaves something behind", "step", current.Name, "reason", left)
		}
	}
	s.run.Spec.Cancelled = reason
	if err := r.store(ctx, s); err != nil {
		return err
	}
	s.stopped = true
	r.eventf(s, normal, "RunCancelled", "Cancel", "%s: %s", s.run.Spec.Hook, reason)
	return nil
}

// unmatched says why the policy is not about the Cluster any more; empty when it is.
func (r *Reconciler) unmatched(ctx context.Context, s *scope) (string, error) {
	mismatch, err := r.matcher.Match(ctx, s.policy, s.cluster)
	if err != nil || mismatch == match.None {
		return "", err
	}
	return fmt.Sprintf("LifecyclePolicy %s is not about the Cluster any more: %s", s.policy.Name, mismatch), nil
}
