package run

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// cancel gives the run up when its policy, its Cluster or its upgrade does not want it
// any more. A policy that cannot be read changes nothing.
func (r *Reconciler) cancel(ctx context.Context, s *scope) error {
	reason, err := plan.CancelReason(s.run, s.policy, s.cluster)
	if err == nil && reason == "" {
		reason, err = matchCondition(ctx, s)
	}
	if err != nil {
		s.stopped, s.held = true, fmt.Sprintf("%v; correct the policy", err)
		return nil
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

func matchCondition(ctx context.Context, s *scope) (string, error) {
	condition := s.policy.Spec.MatchCondition
	if condition == "" || plan.Finished(s.run) {
		return "", nil
	}
	program, err := expression.Compile(condition, expression.Match)
	if err != nil {
		return "", fmt.Errorf("LifecyclePolicy %s: spec.matchCondition: %w", s.policy.Name, err)
	}
	variables, err := expression.Variables(expression.Inputs{Cluster: s.cluster})
	if err != nil {
		return "", err
	}
	matches, err := program.Eval(ctx, variables)
	if err != nil {
		return "", fmt.Errorf("LifecyclePolicy %s: spec.matchCondition: %w", s.policy.Name, err)
	}
	if !matches {
		return fmt.Sprintf("the matchCondition of LifecyclePolicy %s is not true any more", s.policy.Name), nil
	}
	return "", nil
}
