package core

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// The functions of this file are the only ones that change an operation in the
// journal. Each is one record, so that a crash falls between two of them.

// enrolledAgain says whether a Host is another one than the journal is about, and has
// never had a claim, on a host that nothing is left on and that is not being adopted. A
// Host that was moved, or restored from a backup, has another UID, too: its generation goes
// on where it was, and the fence against operations of an earlier time holds.
func enrolledAgain(s journal.State, uid types.UID, spec *infrav1.HostSpec) bool {
	return s.HostUID != "" && s.HostUID != uid && spec.ClaimGeneration == 0 &&
		s.Residue == journal.ResidueNone && !adopting(s)
}

// adopting says whether an adoption is under way, which has to be taken back first.
func adopting(s journal.State) bool {
	return s.Running() && s.Operation.Phase == infrav1.HostDesiredAdopted
}

// undecided says whether a Host that has never had a claim is another one than the journal
// is about, on a host that something is left on or that is being adopted. The journal stays
// with the former Host until that is over: whether the host was enrolled again would not be
// asked any more.
func undecided(s journal.State, uid types.UID, spec *infrav1.HostSpec) bool {
	return s.HostUID != "" && s.HostUID != uid && spec.ClaimGeneration == 0 && !enrolledAgain(s, uid, spec)
}

// serve records the Host whose operations count. What was served for a Host that is no more
// says nothing about a new one: its first claims would be refused as old ones.
func serve(s *journal.State, uid types.UID, spec *infrav1.HostSpec) {
	if enrolledAgain(*s, uid, spec) {
		s.ClaimGeneration, s.ClaimID, s.ResetGeneration = 0, "", 0
		s.Operation, s.CleanProof = nil, nil
	}
	s.HostUID = uid
}

// giveUp records that nobody asks for the reset any more that the agent would have tried again.
func giveUp(s *journal.State) { s.Operation.NextTry = time.Time{} }

// unclaimed stands for the claim in reports on the reset of a host that never had one.
const unclaimed = "none"

// claimID is the claim that an operation is for: of a free host, the last one.
func claimID(s journal.State, spec *infrav1.HostSpec) string {
	if spec.Claim != nil {
		return spec.Claim.ClaimID
	}
	return cmp.Or(s.ClaimID, unclaimed)
}

// unknownHost says whether a journal that knows nothing meets a Host that has had claims: what was done
// for them was recorded once.
func unknownHost(s journal.State, spec *infrav1.HostSpec) bool {
	return s.HostUID == "" && s.ClaimGeneration == 0 && s.Operation == nil && s.CleanProof == nil && spec.ClaimGeneration > 0
}

// recognize records that the journal does not tell what was done to the host, and what the host itself
// tells: the claim that its kubelet has its provider ID of.
func recognize(s *journal.State, uid types.UID, spec *infrav1.HostSpec, nodeOf string, registered bool) {
	if s.Lost == nil {
		s.Lost = &journal.Loss{Why: "the journal knows nothing of this Host, which has had claims before"}
	}
	s.HostUID, s.Lost.Generation, s.CleanProof = uid, ptr.To(spec.ClaimGeneration), nil
	s.ClaimGeneration = max(s.ClaimGeneration, spec.ClaimGeneration)
	if nodeOf == "" {
		return
	}
	s.ClaimID = cmp.Or(s.ClaimID, nodeOf)
	if s.Residue == journal.ResidueNone {
		s.Residue, s.ResidueGeneration = journal.ResidueCommands, s.ClaimGeneration
	}
	of := spec.Claim != nil && spec.Claim.ClaimID == nodeOf && spec.Desired != nil && spec.Desired.Phase != infrav1.HostDesiredReset
	if s.BootstrappedClaimID == "" && (registered || of && (ptr.Deref(spec.Desired.Bootstrapped, false) || !begins(spec.Desired.Phase))) {
		s.BootstrappedClaimID = nodeOf
	}
	if of && s.VirtualIP == "" {
		s.VirtualIP, s.VirtualIPPort = spec.Desired.VirtualIP, spec.Desired.VirtualIPPort
	}
}

// forget takes the word of an operator that the host is clean of what was done to it.
func forget(s *journal.State, uid types.UID, spec *infrav1.HostSpec, now time.Time) {
	clean(s)
	s.Lost, s.Found, s.HostUID = nil, nil, uid
	s.ResetGeneration = max(s.ResetGeneration, *spec.ClearedGeneration)
	if s.Running() {
		fail(s, operation.ReasonWithdrawn, "an operator cleaned the host by hand", now)
	}
}

// begin records a new operation. A claim that was bootstrapped already is so: after
// a move of the management cluster the operation may have another name.
func begin(s *journal.State, spec *infrav1.HostSpec, now time.Time) {
	desired, claim := spec.Desired, claimID(*s, spec)
	if s.ClaimGeneration = spec.ClaimGeneration; spec.Claim != nil {
		s.ClaimID = claim
	}
	s.Operation = &journal.Operation{
		ID: desired.OperationID, ClaimID: claim, ClaimGeneration: spec.ClaimGeneration,
		Phase: desired.Phase, State: infrav1.OperationRunning, StartTime: now.Truncate(time.Second),
		ResetPolicy: desired.ResetPolicy, ClusterDeleting: ptr.Deref(desired.ClusterDeleting, false),
	}
	switch {
	case desired.Phase == infrav1.HostDesiredReset:
		s.ResetGeneration = spec.ClaimGeneration
	case !begins(desired.Phase):
	case s.BootstrappedClaimID == spec.Claim.ClaimID:
		succeed(s, now)
	case desired.Phase == infrav1.HostDesiredBootstrapped:
		s.Operation.ResetFirst = s.Residue != journal.ResidueNone
	}
}

// interrupted records at the start of the agent that it was stopped at work.
func interrupted(s *journal.State, now time.Time) {
	op := s.Operation
	op.Active = false
	if op.Phase == infrav1.HostDesiredRebooted {
		// That is what it is about.
		return
	}
	op.Interruptions++
	op.Reason = operation.ReasonInterrupted
	op.Message = fmt.Sprintf("the agent or the host stopped during step %q; going on", op.Step)
	if s.Residue == journal.ResidueCommands && op.Phase == infrav1.HostDesiredBootstrapped {
		op.ResetFirst = true
		op.Message = fmt.Sprintf("the agent or the host stopped during step %q; resetting before another try", op.Step)
	}
	if op.Phase == infrav1.HostDesiredBootstrapped && op.Interruptions > maxInterruptions {
		fail(s, operation.ReasonInterruptedTooOften,
			fmt.Sprintf("the bootstrap was interrupted %d times, last during step %q; does it reboot the host?", op.Interruptions, op.Step), now)
	}
}

// step records that a step begins. One that is tried again at once, as when it waits for
// the cluster, goes on.
func step(s *journal.State, name, bootID string, now time.Time) {
	op := s.Operation
	if n := len(op.Steps); n > 0 && op.Steps[n-1].Name == name {
		op.Steps[n-1].End = time.Time{}
	} else {
		endStep(op, now)
		op.Steps = append(op.Steps, journal.Step{Name: name, Start: now})
		op.Steps = op.Steps[max(0, len(op.Steps)-journal.MaxSteps):]
	}
	op.Step, op.StepDone, op.StepBootID, op.Active = name, false, bootID, true
}

// stepDone records that the step under way is done.
func stepDone(op *journal.Operation, now time.Time) {
	op.StepDone = true
	endStep(op, now)
}

// endStep records when the step under way ended. When one ended that was cut short by a
// crash is not known.
func endStep(op *journal.Operation, now time.Time) {
	if n := len(op.Steps); op.Active && n > 0 && op.Steps[n-1].End.IsZero() {
		op.Steps[n-1].End = now
	}
}

func succeed(s *journal.State, now time.Time) {
	op := s.Operation
	// A reboot is done by the next boot.
	op.Active = true
	endStep(op, now)
	op.State, op.Step, op.Reason, op.Message = infrav1.OperationSucceeded, "", "", ""
	op.Active, op.ResetFirst, op.FailedStep, op.NextTry = false, false, "", time.Time{}
	op.CompletionTime = now.Truncate(time.Second)
	if begins(op.Phase) {
		s.BootstrappedClaimID = op.ClaimID
	}
}

// disowned records that an adoption came to nothing and that nothing of it is left.
func disowned(s *journal.State, now time.Time) {
	s.Residue, s.ResidueGeneration, s.Baseline = journal.ResidueNone, 0, nil
	fail(s, operation.ReasonWithdrawn, "the adoption was withdrawn before it was done", now)
}

func fail(s *journal.State, reason, message string, now time.Time) {
	op := s.Operation
	endStep(op, now)
	op.State, op.Reason, op.Message = infrav1.OperationFailed, reason, message
	op.Active = false
	op.CompletionTime = now.Truncate(time.Second)
}

// postpone records a try that is not counted.
func postpone(s *journal.State, e *operation.Error, now time.Time) {
	op := s.Operation
	endStep(op, now)
	op.Active, op.Reason, op.Message = false, e.Reason, e.Message
}

// retry records a failed try. A bootstrap that has left something begins with a
// reset then.
func retry(s *journal.State, e *operation.Error, now time.Time) {
	op := s.Operation
	endStep(op, now)
	op.Active = false
	op.Failures++
	if op.Phase == infrav1.HostDesiredReset {
		op.NextTry = now.Add(resetDelay(op.Failures))
		if op.Failures >= maxTries { // whoever waits for the host need not any more; the agent goes on
			op.FailedStep = e.Step
		}
	}
	if op.Failures >= maxTries {
		fail(s, e.Reason, fmt.Sprintf("%s (tried %d times)", e.Message, op.Failures), now)
		return
	}
	op.Reason = e.Reason
	op.Message = fmt.Sprintf("try %d of %d failed: %s", op.Failures, maxTries, e.Message)
	if op.Phase == infrav1.HostDesiredBootstrapped && s.Residue != journal.ResidueNone {
		op.ResetFirst = true
	}
}

// refusedByCluster records a try in which the cluster did not accept the node. Unlike one that failed it says
// nothing about the host, so it ends the operation only when the reason stays.
func refusedByCluster(s *journal.State, e *operation.Error, now time.Time) {
	op := s.Operation
	if op.Reason != e.Reason {
		op.Refusals = 0
	}
	op.Refusals++
	if e.Tries > 0 && op.Refusals >= e.Tries {
		fail(s, e.Reason, fmt.Sprintf("%s (tried %d times)", e.Message, op.Refusals), now)
		return
	}
	postpone(s, e, now)
	op.ResetFirst = s.Residue != journal.ResidueNone
}

// clean records that the host was verified. Only a reset that was requested, or a
// free host, gives a proof.
func clean(s *journal.State) {
	s.Residue, s.ResidueGeneration = journal.ResidueNone, 0
	s.CleanByHand, s.BootstrappedClaimID = false, ""
	s.Files, s.Directories, s.Kept, s.Made, s.Restarted, s.Hostname = nil, nil, nil, nil, nil, nil
	s.Programs, s.IgnoredChecks, s.Baseline = nil, nil, nil
	s.Node = nil
	s.VirtualIP, s.VirtualIPPort, s.VirtualIPPortTaken = "", 0, false
	s.Users, s.Groups, s.Passwords, s.LoginChanges, s.KubeletEnabled = nil, nil, nil, nil, false
	s.ControlPlaneUpgrade, s.EtcdSnapshot, s.Cordoned = nil, nil, false
	if s.Operation != nil {
		s.Operation.ResetFirst = false
	}
}

func prove(s *journal.State, generation int64, bootID string, now time.Time) {
	s.Found = nil
	s.CleanProof = &infrav1.CleanProof{ClaimGeneration: generation, Time: metav1.NewTime(now.Truncate(time.Second)), BootID: bootID}
}
