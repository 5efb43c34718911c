package core

import (
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

func spec(generation int64, claim string, desired *infrav1.HostDesired) *infrav1.HostSpec {
	s := &infrav1.HostSpec{ClaimGeneration: generation, Desired: desired}
	if claim != "" {
		s.Claim = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: claim}
	}
	return s
}

func boot(id string) *infrav1.HostDesired {
	return &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: id}
}

// runs is an operation to a host that runs.
func runs(phase infrav1.HostDesiredPhase) *infrav1.HostDesired {
	return &infrav1.HostDesired{Phase: phase, OperationID: "u", Version: "v1.36.3"}
}

func resets(policy infrav1.ResetPolicy) *infrav1.HostDesired {
	return &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "r", ResetPolicy: policy}
}

func op(id string, generation int64, phase infrav1.HostDesiredPhase, state infrav1.OperationState) *journal.Operation {
	return &journal.Operation{ID: id, ClaimID: "a", ClaimGeneration: generation, Phase: phase, State: state}
}

func TestPlan(t *testing.T) {
	running, done, failed := infrav1.OperationRunning, infrav1.OperationSucceeded, infrav1.OperationFailed
	bootstrapped, reset := infrav1.HostDesiredBootstrapped, infrav1.HostDesiredReset
	proof := func(g int64) *infrav1.CleanProof { return &infrav1.CleanProof{ClaimGeneration: g} }
	// initializes is a bootstrap that makes the control plane, as the journal and the Host have it.
	initializes := func(o *journal.Operation) *journal.Operation { o.InitializesControlPlane = true; return o }
	asked := func(d *infrav1.HostDesired, init bool) *infrav1.HostDesired {
		d.InitializesControlPlane = &init
		return d
	}
	withResetFirst := func(o *journal.Operation) *journal.Operation { o.ResetFirst = true; return o }

	for name, c := range map[string]struct {
		state    journal.State
		spec     *infrav1.HostSpec
		verified bool
		want     ActionKind
		reason   string
	}{
		"init is tried again":                   {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: initializes(withResetFirst(op("b", 1, bootstrapped, running)))}, spec: spec(1, "a", asked(boot("b"), true)), want: ActionReset},
		"init after another host has joined":    {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: initializes(withResetFirst(op("b", 1, bootstrapped, running)))}, spec: spec(1, "a", asked(boot("b"), false)), want: ActionRefuse, reason: operation.ReasonControlPlaneExists},
		"init is done, another host has joined": {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: initializes(op("b", 1, bootstrapped, done))}, spec: spec(1, "a", asked(boot("b"), false)), want: ActionNone},
		"machine of init is deleted":            {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: initializes(withResetFirst(op("b", 1, bootstrapped, running)))}, spec: spec(1, "a", resets("")), want: ActionBegin},
		"join is tried again":                   {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: withResetFirst(op("b", 1, bootstrapped, running))}, spec: spec(1, "a", asked(boot("b"), false)), want: ActionReset},
		"host not known":                        {want: ActionNone},
		"host gone while running":               {state: journal.State{Residue: journal.ResidueCommands, Operation: op("b", 1, bootstrapped, running)}, want: ActionNone},
		"virgin host":                           {spec: spec(0, "", nil), want: ActionProve},
		"proved before this start":              {state: journal.State{CleanProof: proof(0)}, spec: spec(0, "", nil), want: ActionProve},
		"proved and verified":                   {state: journal.State{CleanProof: proof(0)}, spec: spec(0, "", nil), verified: true, want: ActionNone},
		"claim came and went":                   {state: journal.State{CleanProof: proof(1)}, spec: spec(2, "", nil), verified: true, want: ActionProve},
		"claim gone, host not reset":            {state: journal.State{Residue: journal.ResidueCommands, ClaimGeneration: 1, ClaimID: "a"}, spec: spec(1, "", nil), want: ActionNone},
		"cleaned by hand and released":          {state: journal.State{Residue: journal.ResidueCommands, CleanByHand: true}, spec: spec(1, "", nil), want: ActionProve},
		"claimed without an operation":          {spec: spec(1, "a", nil), want: ActionNone},
		"operation gone in mid bootstrap":       {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: op("b", 1, bootstrapped, running)}, spec: spec(1, "a", nil), want: ActionNone},
		"unknown phase, clean host":             {spec: spec(1, "a", runs("Polished")), want: ActionRefuse, reason: operation.ReasonOrderUnknown},
		"unknown phase, host that runs":         {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands}, spec: spec(1, "a", runs("Polished")), want: ActionRefuse, reason: operation.ReasonOrderUnknown},
		"unknown reset policy":                  {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands}, spec: spec(1, "a", resets("Shred")), want: ActionRefuse, reason: operation.ReasonOrderUnknown},
		"first operation":                       {spec: spec(1, "a", boot("b")), want: ActionBegin},
		"begun":                                 {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("b", 1, bootstrapped, running)}, spec: spec(1, "a", boot("b")), want: ActionBootstrap},
		"files were written":                    {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueFiles, Operation: op("b", 1, bootstrapped, running)}, spec: spec(1, "a", boot("b")), want: ActionBootstrap},
		"commands were begun":                   {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: op("b", 1, bootstrapped, running)}, spec: spec(1, "a", boot("b")), want: ActionReset},
		"dirty from an older claim":             {state: journal.State{ClaimGeneration: 2, ClaimID: "a", Residue: journal.ResidueFiles, Operation: withResetFirst(op("b", 2, bootstrapped, running))}, spec: spec(2, "a", boot("b")), want: ActionReset},
		"older claim was to clean by hand":      {state: journal.State{ClaimGeneration: 2, ClaimID: "a", CleanByHand: true, Residue: journal.ResidueCommands, Operation: withResetFirst(op("b", 2, bootstrapped, running))}, spec: spec(2, "a", boot("b")), want: ActionCheck},
		"bootstrapped":                          {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: op("b", 1, bootstrapped, done)}, spec: spec(1, "a", boot("b")), want: ActionNone},
		"failed":                                {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: op("b", 1, bootstrapped, failed)}, spec: spec(1, "a", boot("b")), want: ActionNone},
		"same operation of a newer claim":       {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("b", 1, bootstrapped, done)}, spec: spec(2, "c", boot("b")), want: ActionBegin},
		"released":                              {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("b", 1, bootstrapped, done)}, spec: spec(1, "a", resets("")), want: ActionBegin},
		"released in mid bootstrap":             {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("b", 1, bootstrapped, running)}, spec: spec(1, "a", resets("")), want: ActionBegin},
		"resetting":                             {state: journal.State{ClaimGeneration: 1, ClaimID: "a", ResetGeneration: 1, Operation: op("r", 1, reset, running)}, spec: spec(1, "a", resets(infrav1.ResetPolicyKubeadm)), want: ActionReset},
		"resetting by hand":                     {state: journal.State{ClaimGeneration: 1, ClaimID: "a", ResetGeneration: 1, Operation: op("r", 1, reset, running)}, spec: spec(1, "a", resets(infrav1.ResetPolicyManual)), want: ActionStopKubelet},
		"new claim while the old one resets":    {state: journal.State{ClaimGeneration: 1, ClaimID: "a", ResetGeneration: 1, Operation: op("r", 1, reset, running)}, spec: spec(2, "c", boot("b2")), want: ActionBegin},
		"fenced: older generation":              {state: journal.State{ClaimGeneration: 3, ClaimID: "c"}, spec: spec(2, "a", boot("b")), want: ActionRefuse, reason: operation.ReasonStaleClaim},
		"fenced: reset of older generation":     {state: journal.State{ClaimGeneration: 3, ClaimID: "c", Residue: journal.ResidueCommands}, spec: spec(2, "a", resets("")), want: ActionRefuse, reason: operation.ReasonStaleClaim},
		"fenced: other claim, same number":      {state: journal.State{ClaimGeneration: 3, ClaimID: "c"}, spec: spec(3, "a", boot("b")), want: ActionRefuse, reason: operation.ReasonClaimMismatch},
		"fenced: bootstrap after its reset":     {state: journal.State{ClaimGeneration: 3, ClaimID: "a", ResetGeneration: 3, Operation: op("r", 3, reset, done)}, spec: spec(3, "a", boot("b")), want: ActionRefuse, reason: operation.ReasonAlreadyReset},
		"fenced: bootstrap during its reset":    {state: journal.State{ClaimGeneration: 3, ClaimID: "a", ResetGeneration: 3, Operation: op("r", 3, reset, running)}, spec: spec(3, "a", boot("b")), want: ActionRefuse, reason: operation.ReasonAlreadyReset},
		"upgrade requested":                     {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Operation: op("b", 1, bootstrapped, done)}, spec: spec(1, "a", runs(infrav1.HostDesiredUpgraded)), want: ActionBegin},
		"upgrading":                             {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredUpgraded, running)}, spec: spec(1, "a", runs(infrav1.HostDesiredUpgraded)), want: ActionUpgrade},
		"upgraded":                              {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredUpgraded, done)}, spec: spec(1, "a", runs(infrav1.HostDesiredUpgraded)), want: ActionNone},
		"rebooting":                             {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredRebooted, running)}, spec: spec(1, "a", runs(infrav1.HostDesiredRebooted)), want: ActionReboot},
		"released in mid upgrade":               {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredUpgraded, running)}, spec: spec(1, "a", resets("")), want: ActionBegin},
		"upgrade of a host that is no node":     {state: journal.State{ClaimGeneration: 1, ClaimID: "a"}, spec: spec(1, "a", runs(infrav1.HostDesiredUpgraded)), want: ActionRefuse, reason: operation.ReasonNotBootstrapped},
		"reboot by an older claim":              {state: journal.State{ClaimGeneration: 3, ClaimID: "c", BootstrappedClaimID: "c"}, spec: spec(2, "a", runs(infrav1.HostDesiredRebooted)), want: ActionRefuse, reason: operation.ReasonStaleClaim},
		"reboot after the reset":                {state: journal.State{ClaimGeneration: 3, ClaimID: "a", ResetGeneration: 3, Operation: op("r", 3, reset, running)}, spec: spec(3, "a", runs(infrav1.HostDesiredRebooted)), want: ActionRefuse, reason: operation.ReasonAlreadyReset},
		"adoption of a node found":              {state: journal.State{Found: []string{"process kubelet (PID 1)"}}, spec: spec(1, "a", runs(infrav1.HostDesiredAdopted)), want: ActionBegin},
		"adopting":                              {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, spec: spec(1, "a", runs(infrav1.HostDesiredAdopted)), want: ActionAdopt},
		"adopted but for the last record":       {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, ResidueGeneration: 1, Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, spec: spec(1, "a", runs(infrav1.HostDesiredAdopted)), want: ActionAdopt},
		"adopted":                               {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredAdopted, done)}, spec: spec(1, "a", runs(infrav1.HostDesiredAdopted)), want: ActionNone},
		"adoption refused":                      {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredAdopted, failed)}, spec: spec(1, "a", runs(infrav1.HostDesiredAdopted)), want: ActionNone},
		"adoption withdrawn":                    {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, spec: spec(1, "", nil), want: ActionDisown},
		"adoption withdrawn at its last step":   {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, spec: spec(1, "", nil), want: ActionDisown},
		"claim gone after an adoption":          {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("u", 1, infrav1.HostDesiredAdopted, done)}, spec: spec(1, "", nil), want: ActionNone},
		"operation gone in mid adoption":        {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, spec: spec(1, "a", nil), want: ActionNone},
		"host gone in mid adoption":             {state: journal.State{ClaimGeneration: 1, ClaimID: "a", Operation: op("u", 1, infrav1.HostDesiredAdopted, running)}, want: ActionNone},
		"fenced: adoption by an older claim":    {state: journal.State{ClaimGeneration: 3, ClaimID: "c"}, spec: spec(2, "a", runs(infrav1.HostDesiredAdopted)), want: ActionRefuse, reason: operation.ReasonStaleClaim},
		"fenced: adoption after the reset":      {state: journal.State{ClaimGeneration: 3, ClaimID: "a", ResetGeneration: 3}, spec: spec(3, "a", runs(infrav1.HostDesiredAdopted)), want: ActionRefuse, reason: operation.ReasonAlreadyReset},
		"upgrade of an adopted node":            {state: journal.State{ClaimGeneration: 1, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, Operation: op("x", 1, infrav1.HostDesiredAdopted, done)}, spec: spec(1, "a", runs(infrav1.HostDesiredUpgraded)), want: ActionBegin},
		"claim of the next generation begins":   {state: journal.State{ClaimGeneration: 3, ClaimID: "a", ResetGeneration: 3, Operation: op("r", 3, reset, done)}, spec: spec(4, "d", boot("b")), want: ActionBegin},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(c.state, c.spec, c.verified)
			if got.Kind != c.want || got.Reason != c.reason {
				t.Fatalf("plan is %+v, want %s %s", got, c.want, c.reason)
			}
		})
	}
}
