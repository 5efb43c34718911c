package core

import (
	"fmt"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// ActionKind is what the loop does next.
type ActionKind string

const (
	// ActionNone waits for another spec.
	ActionNone ActionKind = "None"
	// ActionRefuse reports the operation as failed without touching anything.
	ActionRefuse ActionKind = "Refuse"
	// ActionBegin records a new operation.
	ActionBegin ActionKind = "Begin"
	// ActionBootstrap executes the bootstrap data.
	ActionBootstrap ActionKind = "Bootstrap"
	// ActionAdopt takes over the node that runs on the host.
	ActionAdopt ActionKind = "Adopt"
	// ActionDisown takes back what an adoption that was withdrawn has begun.
	ActionDisown ActionKind = "Disown"
	// ActionUpgrade brings the node to another Kubernetes version.
	ActionUpgrade ActionKind = "Upgrade"
	// ActionReboot reboots the host, or finds that it was.
	ActionReboot ActionKind = "Reboot"
	// ActionReset resets the host and proves it: for a reset that was requested, or
	// because what an earlier try or claim left stands in the way of a bootstrap.
	ActionReset ActionKind = "Reset"
	// ActionCheck verifies a host that its operator said to clean by hand.
	ActionCheck ActionKind = "Check"
	// ActionStopKubelet is a reset of policy Manual.
	ActionStopKubelet ActionKind = "StopKubelet"
	// ActionProve verifies a free host and proves that it is clean.
	ActionProve ActionKind = "Prove"
	// ActionForget takes the word of an operator for what the journal has of former claims.
	ActionForget ActionKind = "Forget"
)

// Action is the answer of Plan.
type Action struct {
	Kind ActionKind
	// Reason and Message say why an operation is refused.
	Reason, Message string
}

// Plan decides from the journal, the spec of the Host (nil when the Host is not
// there or not yet known) and whether this process has verified the host.
//
// A Host, claim or operation that vanished never leads to an action: hosts are not
// wiped because an object is gone.
func Plan(s journal.State, spec *infrav1.HostSpec, verified bool) Action {
	switch {
	case spec == nil:
		return Action{Kind: ActionNone}
	case cleared(s, spec):
		return Action{Kind: ActionForget}
	case spec.Claim == nil && (spec.Desired == nil || spec.Desired.Phase != infrav1.HostDesiredReset):
		return planFree(s, spec, verified)
	case spec.Desired == nil:
		return Action{Kind: ActionNone}
	}
	if refused, yes := unknown(spec.Desired); yes {
		return refused
	}
	if refused, yes := refuse(s, spec); yes {
		return refused
	}
	op := s.Operation
	if op == nil || op.ID != spec.Desired.OperationID || op.ClaimGeneration != spec.ClaimGeneration {
		return Action{Kind: ActionBegin}
	}
	if op.State != infrav1.OperationRunning && !goesOn(op) {
		return Action{Kind: ActionNone}
	}
	return Action{Kind: planRunning(s, spec.Desired)}
}

// goesOn says whether an operation that is reported as failed is tried again all the same: a reset,
// until it succeeds or somebody asks for something else.
func goesOn(op *journal.Operation) bool {
	return op.Phase == infrav1.HostDesiredReset && op.State == infrav1.OperationFailed && !op.NextTry.IsZero()
}

// cleared says whether an operator confirmed that the host is clean of what the journal has of it,
// or has lost. The word for one claim stands until the end of the next one, for an agent that was away
// when it was given. It is worth nothing for what came after it.
func cleared(s journal.State, spec *infrav1.HostSpec) bool {
	if spec.ClearedGeneration == nil || adopting(s) || (s.Residue == journal.ResidueNone && s.Lost == nil) {
		return false
	}
	word, last := *spec.ClearedGeneration, spec.ClaimGeneration
	if spec.Claim != nil {
		last--
	}
	return word == last && word >= s.ClaimGeneration && (s.Lost == nil || s.Lost.Generation != nil && word >= *s.Lost.Generation)
}

// planFree proves that a free host is clean: at the start of the agent, and
// after a claim that came and went without an operation. What a claim left is never
// cleaned without an operation.
//
// An adoption whose claim ended was given up: nobody waits for it, and the node must
// not be left with half of it.
func planFree(s journal.State, spec *infrav1.HostSpec, verified bool) Action {
	if adopting(s) {
		return Action{Kind: ActionDisown}
	}
	if s.Residue != journal.ResidueNone && !s.CleanByHand {
		return Action{Kind: ActionNone}
	}
	proved := s.CleanProof != nil && s.CleanProof.ClaimGeneration == spec.ClaimGeneration
	if proved && verified {
		return Action{Kind: ActionNone}
	}
	return Action{Kind: ActionProve}
}

// unknown refuses what a newer manager may request. To guess would be to report a
// success for something else.
func unknown(desired *infrav1.HostDesired) (Action, bool) {
	what := ""
	switch desired.Phase {
	case infrav1.HostDesiredBootstrapped, infrav1.HostDesiredAdopted, infrav1.HostDesiredUpgraded, infrav1.HostDesiredRebooted:
	case infrav1.HostDesiredReset:
		switch desired.ResetPolicy {
		case "", infrav1.ResetPolicyKubeadm, infrav1.ResetPolicyFull, infrav1.ResetPolicyManual:
		default:
			what = fmt.Sprintf("resets of policy %s", desired.ResetPolicy)
		}
	default:
		what = fmt.Sprintf("operations of phase %s", desired.Phase)
	}
	if what == "" {
		return Action{}, false
	}
	return Action{Kind: ActionRefuse, Reason: operation.ReasonOrderUnknown, Message: fmt.Sprintf(
		"this slipway-agent does not know %s; upgrade it on the host, and it carries the operation out", what)}, true
}

// refuse fences operations that are older than what the journal knows: a stale read,
// or a management cluster restored from a backup.
func refuse(s journal.State, spec *infrav1.HostSpec) (Action, bool) {
	no := func(reason, format string, args ...any) (Action, bool) {
		return Action{Kind: ActionRefuse, Reason: reason, Message: fmt.Sprintf(format, args...)}, true
	}
	switch {
	case spec.ClaimGeneration < s.ClaimGeneration:
		return no(operation.ReasonStaleClaim, "the operation is for claim generation %d, but this host has served generation %d already, for claim %s: "+
			"the management cluster is older than that, as one that was restored from a backup. "+recordWaysOut, spec.ClaimGeneration, s.ClaimGeneration, s.ClaimID)
	case spec.Claim != nil && spec.ClaimGeneration == s.ClaimGeneration && s.ClaimID != "" && spec.Claim.ClaimID != s.ClaimID:
		return no(operation.ReasonClaimMismatch, "claim generation %d of this host belongs to claim %s, not to %s; a new claim needs a new generation. "+recordWaysOut,
			s.ClaimGeneration, s.ClaimID, spec.Claim.ClaimID)
	case spec.Desired.Phase == infrav1.HostDesiredReset:
	case s.Lost != nil && spec.Desired.Phase == infrav1.HostDesiredBootstrapped && s.BootstrappedClaimID != spec.Claim.ClaimID: // an adoption changes nothing of what it finds
		return no(operation.ReasonRecordLost, "what was done to this host is not known: %s. Delete the Machine; then `slipway host reset` takes off what is found of a node, "+
			"and `slipway host clear-quarantine` confirms that the rest is clean", s.Lost.Why)
	case spec.ClaimGeneration <= s.ResetGeneration:
		return no(operation.ReasonAlreadyReset, "a reset of claim generation %d was requested already; the host is bootstrapped again only for a new claim", s.ResetGeneration)
	case makesSecond(s, spec.Desired):
		return no(operation.ReasonControlPlaneExists, "this host began to make the control plane, and another host joined the control plane meanwhile; "+
			"it is left as it is, since another try would begin with a reset and make a second control plane. Delete the Machine to replace it")
	case !begins(spec.Desired.Phase) && s.BootstrappedClaimID != spec.Claim.ClaimID:
		return no(operation.ReasonNotBootstrapped, "this host was not bootstrapped for claim %s, so there is no node to be %s; "+
			"delete the Machine to replace it", spec.Claim.ClaimID, strings.ToLower(string(spec.Desired.Phase)))
	}
	return Action{}, false
}

// recordWaysOut ends the refusal of an operation that is older than what the journal has.
const recordWaysOut = "`slipway host adopt` gives the host back to its Machine, `slipway host reset` resets it"

// makesSecond says whether another try of a bootstrap that makes the control plane would make
// a second one.
func makesSecond(s journal.State, desired *infrav1.HostDesired) bool {
	op := s.Operation
	return s.Running() && op.ID == desired.OperationID && op.InitializesControlPlane &&
		desired.InitializesControlPlane != nil && !*desired.InitializesControlPlane
}

// begins says whether an operation of the phase makes the host the node of a claim.
func begins(phase infrav1.HostDesiredPhase) bool {
	return phase == infrav1.HostDesiredBootstrapped || phase == infrav1.HostDesiredAdopted
}

func planRunning(s journal.State, desired *infrav1.HostDesired) ActionKind {
	switch {
	case desired.Phase == infrav1.HostDesiredReset && desired.ResetPolicy == infrav1.ResetPolicyManual:
		return ActionStopKubelet
	case desired.Phase == infrav1.HostDesiredReset:
		return ActionReset
	case desired.Phase == infrav1.HostDesiredAdopted:
		return ActionAdopt
	case desired.Phase == infrav1.HostDesiredUpgraded:
		return ActionUpgrade
	case desired.Phase == infrav1.HostDesiredRebooted:
		return ActionReboot
	case !s.Operation.ResetFirst && s.Residue != journal.ResidueCommands:
		return ActionBootstrap
	case s.CleanByHand:
		return ActionCheck
	default:
		return ActionReset
	}
}
