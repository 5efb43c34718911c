package host

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// callReleaseHooks calls AfterHostRelease for a host on which it is due. Until it
// passes, the annotation stays and nobody can claim the host.
func (r *Reconciler) callReleaseHooks(ctx context.Context, s *scope) (bool, error) {
	if !host.HookPending(s.host) {
		return true, nil
	}
	hookCtx := ctx
	if op := s.host.Status.ObservedOperation; op != nil {
		hookCtx = r.Tracer.Join(ctx, tracing.OfOperation(op.ID))
	}
	outcome := r.Hooks.AfterRelease(hookCtx, s.host)
	if !outcome.Passed() {
		s.facts.ReleaseHooks = outcome.Condition(infrav1.ReleaseHooksPassedCondition)
		s.hookRetry = outcome.RetryAfter
		return true, nil
	}
	changed := s.host.DeepCopy()
	delete(changed.Annotations, runtimev1alpha1.PendingHooksAnnotation)
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("record that the hook AfterHostRelease passed: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("The hook AfterHostRelease passed", "handlers", outcome.Handlers)
	r.Recorder.Eventf(s.host, nil, "Normal", "ReleaseHooksPassed", "Release", "%d handlers let the host be claimed again", outcome.Handlers)
	return false, nil
}

// sooner returns the shorter of two pauses, of which zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
