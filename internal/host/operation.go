package host

import (
	"fmt"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// BootstrapOperationID names the one bootstrap of a claim.
func BootstrapOperationID(claimID string) string { return "bootstrap-" + claimID }

// AdoptOperationID names the one adoption of a claim.
func AdoptOperationID(claimID string) string { return "adopt-" + claimID }

// UpgradeOperationID names the upgrade of a claim to one version.
func UpgradeOperationID(claimID, version string) string {
	return fmt.Sprintf("upgrade-%s-%s", claimID, version)
}

// RebootOperationID names one of the reboots of a claim, counted from 1.
func RebootOperationID(claimID string, n int32) string {
	return fmt.Sprintf("reboot-%s-%d", claimID, n)
}

// ResetOperationID names the one reset of a claim.
func ResetOperationID(claimID string) string { return "reset-" + claimID }

// Observed returns the agent's report on the operation that the host's spec requests
// now, or nil while the agent has not picked it up.
func Observed(h *infrav1.Host) *infrav1.ObservedOperation {
	op := h.Status.ObservedOperation
	if h.Spec.Desired == nil || op == nil || op.ID != h.Spec.Desired.OperationID {
		return nil
	}
	return op
}

// Releasing says whether the reset of the host was requested.
func Releasing(h *infrav1.Host) bool {
	return h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredReset
}

// ProvedClean says whether the host is known to be clean of its last claim: by
// the agent's proof, or by an operator's confirmation. That says nothing about a later claim that
// the agent has on record, and does not outweigh traces of a node that the agent finds.
func ProvedClean(h *infrav1.Host) bool {
	if proof := h.Status.CleanProof; proof != nil && proof.ClaimGeneration == h.Spec.ClaimGeneration {
		return true
	}
	return clearedByHand(h) && len(h.Status.Residue) == 0
}

// ResetProved says whether the requested reset is done and proved, so that the
// claim, or the operation of a free host, may be cleared.
func ResetProved(h *infrav1.Host) bool {
	if !Releasing(h) {
		return false
	}
	op := Observed(h)
	return op != nil && op.State == infrav1.OperationSucceeded && ProvedClean(h)
}

// Bootstrapped says whether the host became a node for its claim. What the spec says
// of it, an operation that only a bootstrapped host gets included, is proof enough: it
// outlives the agent's report.
func Bootstrapped(h *infrav1.Host) bool {
	if h.Spec.Claim == nil || h.Spec.Desired == nil {
		return false
	}
	switch h.Spec.Desired.Phase {
	case infrav1.HostDesiredUpgraded, infrav1.HostDesiredRebooted:
		return true
	case infrav1.HostDesiredBootstrapped, infrav1.HostDesiredAdopted:
		op := Observed(h)
		return ptr.Deref(h.Spec.Desired.Bootstrapped, false) || (op != nil && op.State == infrav1.OperationSucceeded)
	default:
		return false
	}
}

// Unbegun says whether the agent of a claimed host stopped reporting before it began anything for
// the claim, as far as is known: the bootstrap was never requested, or the agent's last report
// is that the host is clean. A report that was lost, as in a move, says nothing; nor does
// it rule out that the agent began after its last report.
func Unbegun(h *infrav1.Host) bool {
	if h.Spec.Claim == nil || Adopting(h) || !Disconnected(h) {
		return false
	}
	desired := h.Spec.Desired
	return desired == nil || (desired.Phase == infrav1.HostDesiredBootstrapped && !Bootstrapped(h) && Observed(h) == nil && h.Status.CleanProof != nil)
}

// Busy says whether the agent has an operation before it that it has not ended.
// Another one must wait.
func Busy(h *infrav1.Host) bool {
	op := Observed(h)
	return h.Spec.Desired != nil && (op == nil || op.State == infrav1.OperationRunning)
}

// Draining says whether a reboot that drains the Node is requested of the agent and has not ended.
func Draining(h *infrav1.Host) bool {
	return Busy(h) && h.Spec.Desired.Phase == infrav1.HostDesiredRebooted && h.Spec.Desired.RebootPolicy == infrav1.RebootDrain
}

// evictionsRefused is the agent's reason for a drain that waits.
const evictionsRefused = "EvictionsRefused"

// EvictionsRefused says whether a drain of the Node waits for pods whose eviction is refused; the report on the
// operation names them.
func EvictionsRefused(h *infrav1.Host) bool {
	op := Observed(h)
	return op != nil && op.State == infrav1.OperationRunning && op.Reason == evictionsRefused
}

// RunningVersion is the version the host is known to run for its claim; "" while
// that is not known.
func RunningVersion(h *infrav1.Host) string {
	op := Observed(h)
	switch {
	case !Bootstrapped(h):
		return ""
	case h.Spec.Desired.Phase == infrav1.HostDesiredUpgraded && (op == nil || op.State != infrav1.OperationSucceeded):
		return ""
	default:
		return h.Spec.Desired.Version
	}
}

// RequestUpgrade requests another Kubernetes version from the agent of h, in place. It
// returns false when that version was requested already, or nothing can be requested
// now: the host is not bootstrapped, busy, releasing, or neither has the version nor
// installs it. release is the KubernetesRelease of the version, nil without one.
func RequestUpgrade(h *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) bool {
	if !Bootstrapped(h) || Busy(h) || version == "" || h.Spec.Desired.Version == version || OfferOf(h, version, release) == OfferNone {
		return false
	}
	desired := next(h, infrav1.HostDesiredUpgraded, UpgradeOperationID(h.Spec.Claim.ClaimID, version))
	desired.Version, desired.ReleaseDigest = version, ReleaseDigest(h, version, release)
	h.Spec.Desired = desired
	return true
}

// RequestReboot requests reboot number n of the claim from the agent of h. It returns
// false when that many were requested already, or while the host is not
// bootstrapped, busy or releasing; only a reboot that drains is overtaken by one that does
// not. The version after a failed upgrade is unknown: the operation forgets it, and so the
// upgrade is requested again after the reboot.
func RequestReboot(h *infrav1.Host, n int32, policy infrav1.RebootPolicy) bool {
	if !Bootstrapped(h) || n <= ptr.Deref(h.Spec.Desired.Reboots, 0) || Busy(h) && (!Draining(h) || policy == infrav1.RebootDrain) {
		return false
	}
	desired := next(h, infrav1.HostDesiredRebooted, RebootOperationID(h.Spec.Claim.ClaimID, n))
	desired.Reboots, desired.RebootPolicy = ptr.To(n), policy
	if h.Spec.Desired.Phase == infrav1.HostDesiredUpgraded && Observed(h).State == infrav1.OperationFailed {
		desired.Version = ""
	}
	h.Spec.Desired = desired
	return true
}

// next is an operation of a bootstrapped host: all that holds for the claim stays, but
// for the bootstrap Secret and the host bundle.
func next(h *infrav1.Host, phase infrav1.HostDesiredPhase, operationID string) *infrav1.HostDesired {
	desired := h.Spec.Desired.DeepCopy()
	desired.Phase, desired.OperationID, desired.ReleaseDigest, desired.RebootPolicy = phase, operationID, "", ""
	RecordBootstrap(desired)
	return desired
}

// RequestReset requests a reset from the agent of h. The policy of the machine wins over
// the policy of the host, and Kubeadm is the default. It returns false when the
// operation already stands. The Secret and everything else of the bootstrap operation go
// away with it. A node that was never adopted is not ours to reset: see Withdraw.
func RequestReset(h *infrav1.Host, machinePolicy infrav1.ResetPolicy) bool {
	if h.Spec.Claim == nil || Releasing(h) || Adopting(h) {
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

// AbandonEtcd makes the reset that is requested of a control-plane host leave etcd without asking the other
// members, since they go as well. It returns false when there is nothing to change.
func AbandonEtcd(h *infrav1.Host) bool {
	if !Releasing(h) || ptr.Deref(h.Spec.Desired.ClusterDeleting, false) {
		return false
	}
	h.Spec.Desired.ClusterDeleting = ptr.To(true)
	return true
}

// RecordBootstrap notes in an operation that the bootstrap, or the adoption, is done, for
// good: the Secret of a bootstrap is not needed any more.
func RecordBootstrap(desired *infrav1.HostDesired) {
	desired.BootstrapSecretName, desired.Bootstrapped = "", ptr.To(true)
}

// OfControlPlane says whether a claimed host is one of its cluster's control plane. A claim
// of before does not tell; then the control-plane address does.
func OfControlPlane(h *infrav1.Host) bool {
	if h.Spec.Claim == nil {
		return false
	}
	return ptr.Deref(h.Spec.Claim.ControlPlane, false) || h.Status.VirtualIP != nil || (h.Spec.Desired != nil && h.Spec.Desired.VirtualIP != "")
}

// FailureDomain of a host: the value of the label when one is configured, else
// spec.failureDomain.
func FailureDomain(h *infrav1.Host, label string) string {
	if label != "" {
		return h.Labels[label]
	}
	return h.Spec.FailureDomain
}
