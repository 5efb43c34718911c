package run

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/match"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// lookForRights is how often a run that waits for a right to be granted looks again.
const lookForRights = 30 * time.Second

// cancel gives the run up when its policy, its Cluster or its upgrade does not want it
// any more. A policy that cannot be read changes nothing.
func (r *Reconciler) cancel(ctx context.Context, s *scope) error {
	now := r.Clock.Now()
	reason := plan.CancelReason(s.run, s.policy, s.cluster, now)
	var err error
	if reason == "" && s.policy != nil && plan.Open(s.run, s.cluster, now) {
		reason, err = r.unmatched(ctx, s)
	}
	if err != nil {
		s.stopped, s.held = true, err.Error()
		return nil //nolint:nilerr // the run is held and says why
	}
	if reason == "" {
		return nil
	}
	current := plan.Current(s.run)
	if current != nil {
		err := r.stop(ctx, s, current)
		if rights.IsMissing(err) {
			// Whoever calls an upgrade off relies on its Jobs to end: cancelled, nobody
			// would look at the run again.
			s.stopped, s.held, s.requeueAfter = true, fmt.Sprintf("%s, but %v", reason, err), lookForRights
			return nil
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("A cancelled run leaves something behind", "step", current.Name, "reason", err.Error())
		}
	}
	s.run.Spec.Cancelled = reason
	if err := r.store(ctx, s); err != nil {
		return err
	}
	s.stopped = true
	r.traceCancel(ctx, s, current)
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
