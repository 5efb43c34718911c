package host

import (
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// BootstrapOperationID names the one bootstrap of a claim.
func BootstrapOperationID(claimID string) string { return "bootstrap-" + claimID }

// ResetOperationID names the one reset of a claim.
func ResetOperationID(claimID string) string { return "reset-" + claimID }

// Observed returns the agent's report on the operation the host is asked for
// now, or nil while the agent has not picked it up.
func Observed(h *infrav1.Host) *infrav1.ObservedOperation {
	op := h.Status.ObservedOperation
	if h.Spec.Desired == nil || op == nil || op.ID != h.Spec.Desired.OperationID {
		return nil
	}
	return op
}

// Releasing says whether the host has been told to reset.
func Releasing(h *infrav1.Host) bool {
	return h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredReset
}

// ProvedClean says whether the host is known to be clean of its last claim: by
// the agent's proof, or by the word of an operator.
func ProvedClean(h *infrav1.Host) bool {
	if proof := h.Status.CleanProof; proof != nil && proof.ClaimGeneration == h.Spec.ClaimGeneration {
		return true
	}
	return h.Spec.ClearedGeneration != nil && *h.Spec.ClearedGeneration == h.Spec.ClaimGeneration
}

// ResetProved says whether the ordered reset is done and proved, so that the
// claim may be cleared.
func ResetProved(h *infrav1.Host) bool {
	if h.Spec.Claim == nil || !Releasing(h) {
		return false
	}
	op := Observed(h)
	return op != nil && op.State == infrav1.OperationSucceeded && ProvedClean(h)
}

// OrderReset makes h ask its agent to reset. The policy of the machine wins over
// the policy of the host, and Kubeadm is the default. It returns false when the
// order already stands. The Secret and everything else of the bootstrap order go
// away with it.
func OrderReset(h *infrav1.Host, machinePolicy infrav1.ResetPolicy) bool {
	if h.Spec.Claim == nil || Releasing(h) {
		return false
	}
	policy := machinePolicy
	if policy == "" {
		policy = h.Spec.ResetPolicy
	}
	if policy == "" {
		policy = infrav1.ResetPolicyKubeadm
	}
	h.Spec.Desired = &infrav1.HostDesired{
		Phase:       infrav1.HostDesiredReset,
		OperationID: ResetOperationID(h.Spec.Claim.ClaimID),
		ResetPolicy: policy,
	}
	return true
}

// FailureDomain of a host: the value of the label when one is asked for, else
// spec.failureDomain.
func FailureDomain(h *infrav1.Host, label string) string {
	if label != "" {
		return h.Labels[label]
	}
	return h.Spec.FailureDomain
}
