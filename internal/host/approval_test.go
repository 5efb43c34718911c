package host_test

import (
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

func TestApproval(t *testing.T) {
	const (
		undecided = infrav1.HostApproval("")
		pending   = infrav1.HostApprovalPending
		approved  = infrav1.HostApprovalApproved
		denied    = infrav1.HostApprovalDenied
	)
	policy := func(mode infrav1.HostApprovalMode, hosts ...infrav1.HostMatch) *infrav1.HostApprovalPolicy {
		return &infrav1.HostApprovalPolicy{Spec: infrav1.HostApprovalPolicySpec{Mode: mode, Hosts: hosts}}
	}
	match := func(hosts ...infrav1.HostMatch) *infrav1.HostApprovalPolicy {
		return policy(infrav1.HostApprovalMatch, hosts...)
	}
	auto, manual := policy(infrav1.HostApprovalAuto), policy(infrav1.HostApprovalManual)
	for name, tc := range map[string]struct {
		current infrav1.HostApproval
		policy  *infrav1.HostApprovalPolicy
		want    infrav1.HostApproval
	}{
		"no policy":                     {undecided, nil, approved},
		"no policy any more":            {pending, nil, pending},
		"auto":                          {undecided, auto, approved},
		"auto, after it waited":         {pending, auto, approved},
		"auto, denied":                  {denied, auto, denied},
		"manual":                        {undecided, manual, pending},
		"manual, waits":                 {pending, manual, pending},
		"manual, approved":              {approved, manual, approved},
		"manual ignores a list":         {undecided, policy(infrav1.HostApprovalManual, infrav1.HostMatch{Name: "h1"}), pending},
		"a mode of a later version":     {undecided, policy("Guess"), pending},
		"match by name":                 {undecided, match(infrav1.HostMatch{Name: "h0"}, infrav1.HostMatch{Name: "h1"}), approved},
		"match by key":                  {undecided, match(infrav1.HostMatch{HostID: "key"}), approved},
		"match by machine-id":           {pending, match(infrav1.HostMatch{MachineID: "id"}), approved},
		"match by all":                  {pending, match(infrav1.HostMatch{Name: "h1", MachineID: "id", HostID: "key"}), approved},
		"match, denied":                 {denied, match(infrav1.HostMatch{Name: "h1"}), denied},
		"match, not listed":             {undecided, match(infrav1.HostMatch{Name: "h0"}), pending},
		"match, another machine":        {undecided, match(infrav1.HostMatch{Name: "h1", MachineID: "other"}), pending},
		"match, another key":            {undecided, match(infrav1.HostMatch{Name: "h1", HostID: "other"}), pending},
		"match, halves of two":          {undecided, match(infrav1.HostMatch{Name: "h1", HostID: "other"}, infrav1.HostMatch{Name: "h0", HostID: "key"}), pending},
		"match, nothing in particular":  {undecided, match(infrav1.HostMatch{}), pending},
		"match, nobody":                 {undecided, match(), pending},
		"match, no longer what matches": {approved, match(infrav1.HostMatch{Name: "h0"}), approved},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.Host{}
			h.Name, h.Spec.HostID, h.Spec.Approval, h.Status.Inventory.MachineID = "h1", "key", tc.current, "id"
			if got := host.Approval(h, tc.policy); got != tc.want {
				t.Errorf("approval = %q, want %q", got, tc.want)
			}
		})
	}
}

// A host that is not approved is for nobody, by no way, and says what to do.
func TestNotApproved(t *testing.T) {
	for approval, reason := range map[infrav1.HostApproval]string{
		"": "", infrav1.HostApprovalApproved: "", infrav1.HostApprovalPending: infrav1.HostNotApprovedReason, infrav1.HostApprovalDenied: infrav1.HostApprovalDeniedReason,
	} {
		t.Run(string(approval), func(t *testing.T) {
			node := free()
			node.Status.CleanProof, node.Status.Residue, node.Spec.ClaimGeneration = nil, []string{"/var/lib/kubelet"}, 0
			for what, of := range map[string]struct {
				h     *infrav1.Host
				judge func(*infrav1.Host, bool) host.State
			}{"claim": {free(), host.Unavailable}, "adoption": {node, host.Unadoptable}} {
				of.h.Name, of.h.Namespace, of.h.Spec.Approval = "h1", "prod", approval
				got := of.judge(of.h, true)
				if got.Reason != reason || (reason != "" && !strings.Contains(got.Message, "slipway host approve h1 -n prod")) {
					t.Errorf("%s: %+v, want %s", what, got, reason)
				}
			}
			running := claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)
			running.Spec.Approval = approval
			if got := host.StateOf(running); got.Phase != infrav1.HostPhaseRunning {
				t.Errorf("a claim that exists: %+v", got)
			}
		})
	}
}
