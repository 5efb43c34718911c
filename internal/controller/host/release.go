package host

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// findOrphan looks whether the HostMachine of the claim still exists. Only a live
// read may say that it doesn't, and even then the host is only reported: an object
// that vanished is never a reason to reset a machine. Of a host whose agent has never
// reported here nothing is known: it is being moved or restored, and its machine may
// come after it.
func (r *Reconciler) findOrphan(ctx context.Context, s *scope) (bool, error) {
	claim := s.host.Spec.Claim
	if claim == nil {
		return true, nil
	}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		machine := &infrav1.HostMachine{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: s.host.Namespace, Name: claim.MachineName}, machine)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get HostMachine %s: %w", claim.MachineName, err)
		}
		if err == nil && machine.Spec.ClaimID == claim.ClaimID {
			return true, nil
		}
	}
	s.machineGone = true
	// A machine that is gone after it requested the reset did all it had to.
	s.facts.Orphaned = !host.Releasing(s.host) && s.host.Status.BootID != ""
	if s.facts.Orphaned && conditions.GetReason(s.host, clusterv1.ReadyCondition) != infrav1.HostOrphanedClaimReason {
		r.Recorder.Eventf(s.host, nil, "Warning", infrav1.HostOrphanedClaimReason, "Release",
			"HostMachine %s of claim %s is gone; the host is left alone until it is annotated with %s=%s",
			claim.MachineName, claim.ClaimID, infrav1.ReleaseOrphanAnnotation, claim.ClaimID)
	}
	return true, nil
}

// releaseOrphan obeys an operator who requests the reset of an orphaned host. The
// annotation must name the claim, and goes away whether or not it did.
func (r *Reconciler) releaseOrphan(ctx context.Context, s *scope) (bool, error) {
	claimID, ok := s.host.Annotations[infrav1.ReleaseOrphanAnnotation]
	if !ok {
		return true, nil
	}
	if s.machineGone && s.host.Status.BootID == "" && claimID == s.host.Spec.Claim.ClaimID {
		return true, nil // the agent has not reported: until then nothing is known of the host
	}
	changed := s.host.DeepCopy()
	delete(changed.Annotations, infrav1.ReleaseOrphanAnnotation)
	withdrawn, obeyed := false, false
	if s.facts.Orphaned && claimID == s.host.Spec.Claim.ClaimID {
		if withdrawn = host.Withdraw(changed); withdrawn {
			r.Hooks.MarkReleased(ctx, changed)
		}
		obeyed = withdrawn || host.RequestReset(changed, "")
	}
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("release the orphaned host: %w", err)
	}
	switch {
	case withdrawn:
		r.Recorder.Eventf(s.host, nil, "Normal", "AdoptionWithdrawn", "Release", "Ended claim %s by annotation; the node was not adopted and stays as it is", claimID)
	case obeyed:
		r.Recorder.Eventf(s.host, nil, "Normal", "OrphanReleased", "Release", "Requested the reset of claim %s by annotation", claimID)
	default:
		r.Recorder.Eventf(s.host, nil, "Warning", "AnnotationIgnored", "Release",
			"Removed annotation %s: %q is not the ID of an orphaned claim of this host", infrav1.ReleaseOrphanAnnotation, claimID)
	}
	return false, nil
}

// clearQuarantine takes an operator's word that the host was cleaned by hand. The
// word is recorded for this claim only. One that comes before its time waits; one that
// can mean nothing is answered by an event.
func (r *Reconciler) clearQuarantine(ctx context.Context, s *scope) (bool, error) {
	word, ok := s.host.Annotations[infrav1.ClearQuarantineAnnotation]
	if !ok {
		return true, nil
	}
	answer, why := host.EvaluateConfirmation(s.host, word)
	if answer == host.ConfirmationPending {
		return true, nil
	}
	changed := s.host.DeepCopy()
	delete(changed.Annotations, infrav1.ClearQuarantineAnnotation)
	if answer == host.ConfirmationAccepted {
		host.Clear(changed)
		r.free(ctx, changed)
	}
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("clear the quarantine: %w", err)
	}
	if answer == host.ConfirmationAccepted {
		r.Recorder.Eventf(s.host, nil, "Normal", "QuarantineCleared", "Release", "Cleared by annotation")
	} else {
		r.Recorder.Eventf(s.host, nil, "Warning", "AnnotationIgnored", "Release",
			"Removed annotation %s: %s", infrav1.ClearQuarantineAnnotation, why)
	}
	return false, nil
}

// endRestore takes off an operator's word that a restored Host is all there is, once the agent
// came for it: a later snapshot of this management cluster would take it along.
func (r *Reconciler) endRestore(ctx context.Context, s *scope) (bool, error) {
	if _, ok := s.host.Annotations[infrav1.RestoredAnnotation]; !ok || !s.facts.Connection.Connected {
		return true, nil
	}
	changed := s.host.DeepCopy()
	delete(changed.Annotations, infrav1.RestoredAnnotation)
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("remove annotation %s: %w", infrav1.RestoredAnnotation, err)
	}
	r.Recorder.Eventf(s.host, nil, "Normal", "AgentArrived", "Restore", "The agent is here; removed annotation %s", infrav1.RestoredAnnotation)
	return false, nil
}

// clearClaim frees a host that proved to be clean of its claim. Update carries the
// resourceVersion of the Host the proof was read from.
func (r *Reconciler) clearClaim(ctx context.Context, s *scope) (bool, error) {
	if !host.ResetProved(s.host) {
		return true, nil
	}
	claim := s.host.Spec.Claim
	changed := s.host.DeepCopy()
	r.free(ctx, changed)
	if err := r.Client.Update(ctx, changed); err != nil {
		return false, fmt.Errorf("clear the claim: %w", err)
	}
	if claim == nil {
		r.Recorder.Eventf(s.host, nil, "Normal", "Released", "Release", "Reset complete; the host is available")
		return false, nil
	}
	ctrl.LoggerFrom(ctx).Info("Host is clean and free", "HostMachine", klog.KRef(s.host.Namespace, claim.MachineName), "claim", claim.ClaimID)
	r.Recorder.Eventf(s.host, nil, "Normal", "Released", "Release", "Reset after HostMachine %s complete; the host is available", claim.MachineName)
	return false, nil
}

// free is the whole change to a Host that the end of a claim makes, or of the reset of a free host.
func (r *Reconciler) free(ctx context.Context, h *infrav1.Host) {
	claimed := h.Spec.Claim != nil
	if h.Spec.Claim, h.Spec.Desired = nil, nil; !claimed {
		return
	}
	host.BlockMove(h, false)
	r.Hooks.MarkReleased(ctx, h)
}

// forget lets a deleted Host go when no machine needs it any more. Should the
// machine come back, it must enroll anew, and is not clean then.
func (r *Reconciler) forget(ctx context.Context, s *scope) (bool, error) {
	if s.host.Spec.Claim != nil && !s.machineGone {
		return true, nil
	}
	changed := s.host.DeepCopy()
	if !controllerutil.RemoveFinalizer(changed, infrav1.HostFinalizer) {
		return false, nil
	}
	if err := r.revokeRBAC(ctx, s.host); err != nil {
		return false, err
	}
	if err := r.revokeHandOver(ctx, s.host); err != nil {
		return false, err
	}
	if err := r.Client.Update(ctx, changed); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("remove the finalizer: %w", err)
	}
	return false, nil
}
