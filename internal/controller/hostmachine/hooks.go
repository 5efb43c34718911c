package hostmachine

import (
	"context"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// claimHooksPass asks BeforeHostClaim whether the machine may have the host. It is
// called before the claim is written, and so again after a crash or a conflict.
func (r *Reconciler) claimHooksPass(ctx context.Context, s *scope, h *infrav1.Host) bool {
	ctx = r.Tracer.Join(ctx, tracing.OfClaim(s.hostMachine.Spec.ClaimID))
	outcome := r.Hooks.BeforeClaim(ctx, s.hostMachine, s.cluster.Name, h)
	condition := outcome.Condition(infrav1.ClaimHooksPassedCondition)
	if condition == nil {
		conditions.Delete(s.hostMachine, infrav1.ClaimHooksPassedCondition)
		return true
	}
	if !outcome.Passed() && conditions.GetReason(s.hostMachine, condition.Type) != condition.Reason {
		r.Recorder.Eventf(s.hostMachine, h, "Warning", infrav1.HostMachineWaitingForHookReason, "Claim", "%.900s", outcome.Message)
	}
	conditions.Set(s.hostMachine, *condition)
	if !outcome.Passed() {
		s.waiting = &waiting{infrav1.HostMachineWaitingForHookReason, "The hook BeforeHostClaim holds back the claim of Host " + h.Name + ". " + outcome.Message}
		s.requeueAfter = outcome.RetryAfter
	}
	return outcome.Passed()
}
