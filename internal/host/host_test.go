package host_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// free is a host that was claimed and cleaned twice.
func free() *infrav1.Host {
	h := &infrav1.Host{}
	h.Spec.ClaimGeneration = 2
	h.Status.BootID = "boot"
	h.Status.CleanProof = &infrav1.CleanProof{ClaimGeneration: 2}
	return reported(h)
}

// reported is a host whose agent has told what it is.
func reported(h *infrav1.Host) *infrav1.Host {
	h.Status.Inventory.Architecture = "amd64"
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
	return h
}

// claimed is a host whose agent reports on its operation.
func claimed(desired infrav1.HostDesiredPhase, state infrav1.OperationState, change ...func(*infrav1.Host)) *infrav1.Host {
	h := free()
	h.Spec.Claim = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "id"}
	h.Spec.Desired = &infrav1.HostDesired{Phase: desired, OperationID: "op"}
	h.Status.CleanProof = nil
	if state != "" {
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", ClaimID: "id", Phase: desired, State: state, Step: "kubeadm-join"}
	}
	for _, c := range change {
		c(h)
	}
	return h
}

// leaving is a free host that goes to another namespace.
func leaving() *infrav1.Host {
	h := free()
	h.Spec.AssignedNamespace = "team-a"
	return h
}

// freed is a free host of claim generation 2 whose agent has a record, and no proof.
func freed(record infrav1.HostRecord, word *int64) *infrav1.Host {
	h := free()
	h.Status.CleanProof, h.Status.BootID, h.Status.Record, h.Spec.ClearedGeneration = nil, "b", &record, word
	return h
}

// ordered is a free host that an operator has reset.
func ordered(state infrav1.OperationState) *infrav1.Host {
	h := freed(infrav1.HostRecord{State: infrav1.HostRecordRemains}, nil)
	h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-x"}
	if state != "" {
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "reset-x", State: state}
	}
	return h
}

func TestStateOf(t *testing.T) {
	const (
		boot    = infrav1.HostDesiredBootstrapped
		upgrade = infrav1.HostDesiredUpgraded
		reboot  = infrav1.HostDesiredRebooted
		reset   = infrav1.HostDesiredReset
	)
	proved := func(h *infrav1.Host) { h.Status.CleanProof = &infrav1.CleanProof{ClaimGeneration: 2} }
	for name, tc := range map[string]struct {
		host   *infrav1.Host
		phase  infrav1.HostPhase
		reason string
	}{
		"released, its hook is due":             {pendingHook(free()), infrav1.HostPhaseResetting, infrav1.HostWaitingForHookReason},
		"not clean, and a hook is due":          {pendingHook(&infrav1.Host{Spec: infrav1.HostSpec{ClaimGeneration: 2}, Status: infrav1.HostStatus{BootID: "b"}}), infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"claimed again before the hook":         {pendingHook(claimed(boot, "")), infrav1.HostPhaseClaimed, infrav1.HostClaimedReason},
		"pending":                               {pending(free()), infrav1.HostPhaseEnrolling, infrav1.HostNotApprovedReason},
		"pending, not inspected":                {pending(&infrav1.Host{Status: infrav1.HostStatus{BootID: "b"}}), infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason},
		"an earlier one, never reported":        {&infrav1.Host{Spec: infrav1.HostSpec{ClaimGeneration: 3}, Status: infrav1.HostStatus{CleanProof: &infrav1.CleanProof{ClaimGeneration: 2}}}, infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"enrolled again, as clean as before":    {&infrav1.Host{Status: infrav1.HostStatus{BootID: "b", CleanProof: &infrav1.CleanProof{ClaimGeneration: 2}}}, infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"running, of which nothing is reported": {bootstrapped(claimed(boot, "")), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"adopted, of which nothing is reported": {bootstrapped(adopting("")), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"never heard of":                        {&infrav1.Host{}, infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason},
		"new and clean":                         {reported(&infrav1.Host{Status: infrav1.HostStatus{CleanProof: &infrav1.CleanProof{}}}), infrav1.HostPhaseAvailable, infrav1.HostAvailableReason},
		"clean, not described":                  {&infrav1.Host{Status: infrav1.HostStatus{CleanProof: &infrav1.CleanProof{}}}, infrav1.HostPhaseEnrolling, infrav1.HostInventoryNotReportedReason},
		"cleared by hand, status lost":          {&infrav1.Host{Spec: infrav1.HostSpec{ClaimGeneration: 2, ClearedGeneration: ptr.To(int64(2))}}, infrav1.HostPhaseEnrolling, infrav1.HostInventoryNotReportedReason},
		"new, not looked at":                    {&infrav1.Host{Status: infrav1.HostStatus{BootID: "b"}}, infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason},
		"new and dirty":                         {&infrav1.Host{Status: infrav1.HostStatus{BootID: "b", Residue: []string{"/var/lib/etcd"}}}, infrav1.HostPhaseQuarantined, infrav1.HostAdoptionRefusedReason},
		"used, not looked at":                   {&infrav1.Host{Spec: infrav1.HostSpec{ClaimGeneration: 2}, Status: infrav1.HostStatus{BootID: "b"}}, infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"clean":                                 {free(), infrav1.HostPhaseAvailable, infrav1.HostAvailableReason},
		"status lost":                           {&infrav1.Host{Spec: infrav1.HostSpec{ClaimGeneration: 2}}, infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason},
		"operation not seen":                    {claimed(boot, ""), infrav1.HostPhaseClaimed, infrav1.HostClaimedReason},
		"report on another":                     {claimed(boot, infrav1.OperationSucceeded, func(h *infrav1.Host) { h.Status.ObservedOperation.ID = "x" }), infrav1.HostPhaseClaimed, infrav1.HostClaimedReason},
		"bootstrapping":                         {claimed(boot, infrav1.OperationRunning), infrav1.HostPhaseBootstrapping, infrav1.HostBootstrappingReason},
		"running":                               {claimed(boot, infrav1.OperationSucceeded), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"failed":                                {claimed(boot, infrav1.OperationFailed), infrav1.HostPhaseFailed, infrav1.HostBootstrapFailedReason},
		"adoption not seen":                     {adopting(""), infrav1.HostPhaseAdopting, infrav1.HostAdoptingReason},
		"adopting":                              {adopting(infrav1.OperationRunning), infrav1.HostPhaseAdopting, infrav1.HostAdoptingReason},
		"adopted":                               {adopting(infrav1.OperationSucceeded), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"not adopted":                           {adopting(infrav1.OperationFailed), infrav1.HostPhaseFailed, infrav1.HostAdoptionRefusedReason},
		"upgrade not seen":                      {claimed(upgrade, ""), infrav1.HostPhaseUpgrading, infrav1.HostUpgradingReason},
		"upgrading":                             {claimed(upgrade, infrav1.OperationRunning), infrav1.HostPhaseUpgrading, infrav1.HostUpgradingReason},
		"upgraded":                              {claimed(upgrade, infrav1.OperationSucceeded), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"upgrade failed":                        {claimed(upgrade, infrav1.OperationFailed), infrav1.HostPhaseFailed, infrav1.UpgradeFailedReason},
		"reboot not seen":                       {claimed(reboot, ""), infrav1.HostPhaseRebooting, infrav1.HostRebootingReason},
		"rebooting":                             {claimed(reboot, infrav1.OperationRunning), infrav1.HostPhaseRebooting, infrav1.HostRebootingReason},
		"rebooted":                              {claimed(reboot, infrav1.OperationSucceeded), infrav1.HostPhaseRunning, infrav1.HostRunningReason},
		"reboot failed":                         {claimed(reboot, infrav1.OperationFailed), infrav1.HostPhaseFailed, infrav1.HostRebootFailedReason},
		"reset not seen":                        {claimed(reset, ""), infrav1.HostPhaseResetting, infrav1.HostResettingReason},
		"resetting":                             {claimed(reset, infrav1.OperationRunning), infrav1.HostPhaseResetting, infrav1.HostResettingReason},
		"reset and proved":                      {claimed(reset, infrav1.OperationSucceeded, proved), infrav1.HostPhaseResetting, infrav1.HostResettingReason},
		"reset unproved":                        {claimed(reset, infrav1.OperationSucceeded), infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"reset failed":                          {claimed(reset, infrav1.OperationFailed), infrav1.HostPhaseQuarantined, infrav1.HostResetFailedReason},
		"reset by hand": {claimed(reset, infrav1.OperationSucceeded, func(h *infrav1.Host) {
			h.Spec.Desired.ResetPolicy = infrav1.ResetPolicyManual
		}), infrav1.HostPhaseQuarantined, infrav1.HostManualResetReason},
		"proof of an earlier claim": {func() *infrav1.Host { h := free(); h.Spec.ClaimGeneration = 3; return h }(), infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
		"cleared by hand": {func() *infrav1.Host {
			h := free()
			h.Status.CleanProof, h.Spec.ClearedGeneration = nil, ptr.To(int64(2))
			return h
		}(), infrav1.HostPhaseAvailable, infrav1.HostAvailableReason},
		"a former claim on record":      {freed(infrav1.HostRecord{State: infrav1.HostRecordNode, ClaimID: "former", ClaimGeneration: ptr.To[int64](7)}, nil), infrav1.HostPhaseQuarantined, infrav1.HostPreviousClaimReason},
		"remains on record":             {freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](2)}, nil), infrav1.HostPhaseQuarantined, infrav1.HostPreviousClaimReason},
		"remains, cleared by hand":      {freed(infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](2)}, ptr.To[int64](2)), infrav1.HostPhaseAvailable, infrav1.HostAvailableReason},
		"cleared for an earlier record": {freed(infrav1.HostRecord{State: infrav1.HostRecordNode, ClaimGeneration: ptr.To[int64](7)}, ptr.To[int64](2)), infrav1.HostPhaseQuarantined, infrav1.HostPreviousClaimReason},
		"record lost":                   {freed(infrav1.HostRecord{State: infrav1.HostRecordClean, Lost: "gone", ClaimGeneration: ptr.To[int64](2)}, nil), infrav1.HostPhaseQuarantined, infrav1.HostRecordLostReason},
		"record lost, cleared by hand":  {freed(infrav1.HostRecord{State: infrav1.HostRecordClean, Lost: "gone", ClaimGeneration: ptr.To[int64](2)}, ptr.To[int64](2)), infrav1.HostPhaseAvailable, infrav1.HostAvailableReason},
		"cleared by hand, and dirty": {func() *infrav1.Host {
			h := freed(infrav1.HostRecord{State: infrav1.HostRecordClean, ClaimGeneration: ptr.To[int64](2)}, ptr.To[int64](2))
			h.Status.Residue = []string{"process kubelet"}
			return h
		}(), infrav1.HostPhaseQuarantined, infrav1.HostAdoptionRefusedReason},
		"record lost, cleared by hand, and dirty": {func() *infrav1.Host {
			h := freed(infrav1.HostRecord{State: infrav1.HostRecordClean, Lost: "gone", ClaimGeneration: ptr.To[int64](2)}, ptr.To[int64](2))
			h.Status.Residue = []string{"process kubelet"}
			return h
		}(), infrav1.HostPhaseQuarantined, infrav1.HostAdoptionRefusedReason},
		"ordered to reset": {ordered(""), infrav1.HostPhaseResetting, infrav1.HostResettingReason},
		"order failed":     {ordered(infrav1.OperationFailed), infrav1.HostPhaseQuarantined, infrav1.HostResetFailedReason},
		"cleared before the last claim": {func() *infrav1.Host {
			h := free()
			h.Status.CleanProof, h.Spec.ClearedGeneration = nil, ptr.To(int64(1))
			return h
		}(), infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason},
	} {
		t.Run(name, func(t *testing.T) {
			got := host.StateOf(tc.host)
			if got.Phase != tc.phase || got.Reason != tc.reason {
				t.Errorf("state = %+v, want %s, %s", got, tc.phase, tc.reason)
			}
			if got.Quarantined() != (tc.phase == infrav1.HostPhaseQuarantined) {
				t.Errorf("quarantined %t in phase %s", got.Quarantined(), got.Phase)
			}
			if got.Quarantined() && !strings.Contains(got.Message, "`slipway host clear-quarantine") && !strings.Contains(got.Message, "Remove it, by `slipway host reset") {
				t.Errorf("a quarantine without remedy: %s", got.Message)
			}
		})
	}
}

func pendingHook(h *infrav1.Host) *infrav1.Host {
	h.Annotations = map[string]string{runtimev1alpha1.PendingHooksAnnotation: "AfterHostRelease"}
	return h
}

func bootstrapped(h *infrav1.Host) *infrav1.Host {
	h.Spec.Desired.Bootstrapped = ptr.To(true)
	return h
}

func pending(h *infrav1.Host) *infrav1.Host {
	h.Spec.Approval = infrav1.HostApprovalPending
	return h
}

// A hook is due for a host that is free, until an extension has agreed.
func TestHookPending(t *testing.T) {
	for name, tc := range map[string]struct {
		host *infrav1.Host
		want bool
	}{
		"free, due":     {pendingHook(free()), true},
		"free, not due": {free(), false},
		"claimed, due":  {pendingHook(claimed(infrav1.HostDesiredBootstrapped, "")), false},
	} {
		if got := host.HookPending(tc.host); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What a message says of the step and of the agent's reason.
func TestMessagesOfOperations(t *testing.T) {
	for name, tc := range map[string]struct {
		step, message   string
		running, failed string
	}{
		"both":    {"kubeadm-join", "exit 1", "Step kubeadm-join: exit 1", "Step kubeadm-join failed: exit 1"},
		"a step":  {"kubeadm-join", "", "Step kubeadm-join", "Step kubeadm-join failed: the agent gave no reason; see the log of slipway-agent on the host"},
		"reason":  {"", "exit 1", "exit 1", "exit 1"},
		"nothing": {"", "", "", "the agent gave no reason; see the log of slipway-agent on the host"},
	} {
		for state, want := range map[infrav1.OperationState]string{infrav1.OperationRunning: tc.running, infrav1.OperationFailed: tc.failed} {
			got := host.StateOf(claimed(infrav1.HostDesiredBootstrapped, state, func(h *infrav1.Host) {
				h.Status.ObservedOperation.Step, h.Status.ObservedOperation.Message = tc.step, tc.message
			}))
			if got.Message != want {
				t.Errorf("%s, %s: %q, want %q", name, state, got.Message, want)
			}
		}
	}
}

func TestUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		change       func(*infrav1.Host)
		disconnected bool
		reason       string
	}{
		"available":    {change: func(*infrav1.Host) {}},
		"disconnected": {change: func(*infrav1.Host) {}, disconnected: true, reason: infrav1.HostAgentNotConnectedReason},
		"assigned":     {change: func(h *infrav1.Host) { h.Spec.AssignedNamespace = "team-a" }, reason: infrav1.HostAssignedReason},
		"assigned, and its agent gone": {
			change: func(h *infrav1.Host) { h.Spec.AssignedNamespace = "team-a" }, disconnected: true, reason: infrav1.HostAssignedReason,
		},
		"unschedulable": {change: func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }, reason: infrav1.HostUnschedulableReason},
		"evacuated":     {change: func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) }, reason: infrav1.HostEvacuateReason},
		"pending":       {change: func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }, reason: infrav1.HostNotApprovedReason},
		"deleting":      {change: func(h *infrav1.Host) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, reason: infrav1.HostDeletingReason},
		"cloned":        {change: has(infrav1.DuplicateIdentityCondition, metav1.ConditionTrue), reason: "R"},
		"not cloned":    {change: has(infrav1.DuplicateIdentityCondition, metav1.ConditionFalse)},
		"too old":       {change: has(infrav1.AgentSupportedCondition, metav1.ConditionFalse), reason: "R"},
		"new enough":    {change: has(infrav1.AgentSupportedCondition, metav1.ConditionTrue)},
		"claimed":       {change: func(h *infrav1.Host) { h.Spec.Claim = &infrav1.HostClaim{} }, reason: infrav1.HostClaimedReason},
		"not clean":     {change: func(h *infrav1.Host) { h.Spec.ClaimGeneration = 9 }, reason: infrav1.HostNotCleanReason},
	} {
		t.Run(name, func(t *testing.T) {
			h := free()
			tc.change(h)
			if got := host.Unavailable(h, !tc.disconnected); got.Reason != tc.reason {
				t.Errorf("reason = %q, want %q", got.Reason, tc.reason)
			}
		})
	}
}

// has gives a host a condition.
func has(kind string, status metav1.ConditionStatus) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Status.Conditions = []metav1.Condition{{Type: kind, Status: status, Reason: "R"}}
	}
}

// Whoever keeps new machines from a host keeps them from one that is claimed, too.
func TestHeldBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.Host)
		want   bool
	}{
		"free":                       {func(*infrav1.Host) {}, false},
		"approved":                   {func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalApproved }, false},
		"schedulable, not evacuated": {func(h *infrav1.Host) { h.Spec.Unschedulable, h.Spec.Evacuate = ptr.To(false), ptr.To(false) }, false},
		"pending":                    {func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }, true},
		"denied":                     {func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied }, true},
		"unschedulable":              {func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }, true},
		"evacuated":                  {func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) }, true},
		"leaving":                    {func(h *infrav1.Host) { h.Spec.AssignedNamespace = "team-a" }, true},
		"deleted":                    {func(h *infrav1.Host) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
	} {
		for kind, h := range map[string]*infrav1.Host{"free": free(), "claimed": claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)} {
			tc.change(h)
			if got := host.HeldBack(h); got != tc.want {
				t.Errorf("%s, %s: %t, want %t", name, kind, got, tc.want)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	connected := host.Connection{Connected: true, LastSeen: time.Now()}
	for name, tc := range map[string]struct {
		host  *infrav1.Host
		facts host.Facts
		ready metav1.ConditionStatus
		why   string
	}{
		"free":         {free(), host.Facts{Connection: connected}, metav1.ConditionTrue, infrav1.HostAvailableReason},
		"running":      {claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded), host.Facts{Connection: connected}, metav1.ConditionTrue, infrav1.HostRunningReason},
		"assigned":     {leaving(), host.Facts{Connection: connected}, metav1.ConditionFalse, infrav1.HostAssignedReason},
		"gone over":    {leaving(), host.Facts{Connection: host.Connection{LastSeen: time.Now()}}, metav1.ConditionFalse, infrav1.HostAssignedReason},
		"silent":       {claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded), host.Facts{Connection: host.Connection{LastSeen: time.Now()}}, metav1.ConditionFalse, infrav1.HostAgentNotConnectedReason},
		"orphaned":     {claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded), host.Facts{Connection: connected, Orphaned: true}, metav1.ConditionFalse, infrav1.HostOrphanedClaimReason},
		"resetting":    {claimed(infrav1.HostDesiredReset, infrav1.OperationRunning), host.Facts{Connection: connected}, metav1.ConditionFalse, infrav1.HostResettingReason},
		"not enrolled": {&infrav1.Host{}, host.Facts{}, metav1.ConditionFalse, infrav1.HostEnrollingReason},
	} {
		t.Run(name, func(t *testing.T) {
			for _, condition := range host.Conditions(tc.host, tc.facts) {
				if condition.Type == clusterv1.ReadyCondition && (condition.Status != tc.ready || condition.Reason != tc.why) {
					t.Errorf("Ready = %+v, want %s %s", condition, tc.ready, tc.why)
				}
				if condition.Reason == "" {
					t.Errorf("%s has no reason", condition.Type)
				}
			}
		})
	}
}

// In the target of a move or a restore somebody has to be told why no agent comes, before he
// takes the host for dead and deletes it.
func TestRestoredHostTellsWhatItWaitsFor(t *testing.T) {
	const word = infrav1.RestoredAnnotation + "=copy"
	restored := func(change func(*infrav1.Host)) *infrav1.Host {
		h := claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)
		h.UID, h.Spec.HostID = "copy", "id"
		change(h)
		return h
	}
	for name, tc := range map[string]struct {
		change     func(*infrav1.Host)
		connection host.Connection
		tells      bool
	}{
		"claimed":           {func(*infrav1.Host) {}, host.Connection{}, true},
		"free":              {func(h *infrav1.Host) { h.Spec.Claim, h.Spec.Desired = nil, nil }, host.Connection{}, true},
		"another one's":     {func(h *infrav1.Host) { h.Annotations = map[string]string{infrav1.RestoredAnnotation: "original"} }, host.Connection{}, true},
		"said already":      {func(h *infrav1.Host) { h.Annotations = map[string]string{infrav1.RestoredAnnotation: "copy"} }, host.Connection{}, false},
		"made in advance":   {func(h *infrav1.Host) { h.Spec.HostID = "" }, host.Connection{}, false},
		"was here":          {func(*infrav1.Host) {}, host.Connection{LastSeen: time.Now()}, false},
		"connected already": {func(*infrav1.Host) {}, host.Connection{Connected: true, LastSeen: time.Now()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range host.Conditions(restored(tc.change), host.Facts{Connection: tc.connection}) {
				if c.Type == infrav1.AgentConnectedCondition && strings.Contains(c.Message, word) != tc.tells {
					t.Errorf("AgentConnected says %q", c.Message)
				}
			}
		})
	}
}

func TestSkew(t *testing.T) {
	received := time.Now()
	for name, tc := range map[string]struct {
		ahead []time.Duration
		want  []int // seconds; -1 for not known
	}{
		"one message tells nothing":     {[]time.Duration{time.Hour}, []int{-1}},
		"ahead":                         {[]time.Duration{time.Hour, time.Hour - time.Second}, []int{-1, 3600}},
		"behind":                        {[]time.Duration{-time.Hour, -time.Hour}, []int{-1, -3600}},
		"right, one message comes late": {[]time.Duration{0, -time.Minute, 0}, []int{-1, 0, 0}},
		"right, the first comes late":   {[]time.Duration{-time.Minute, 0}, []int{-1, 0}},
		"small changes are not told":    {[]time.Duration{0, 0, 9 * time.Second, 9 * time.Second, 0}, []int{-1, 0, 0, 0, 0}},
		"larger ones are":               {[]time.Duration{0, 0, 35 * time.Second, 35 * time.Second}, []int{-1, 0, 35, 35}},
		"set right":                     {[]time.Duration{time.Hour, time.Hour, 0, 0}, []int{-1, 3600, 3600, 0}},
	} {
		var skew host.Skew
		for i, ahead := range tc.ahead {
			before := skew.Told()
			changed := skew.Add(received.Add(ahead), received)
			now := skew.Told()
			if got := seconds(now); got != tc.want[i] {
				t.Errorf("%s: after message %d %d s, want %d", name, i, got, tc.want[i])
			}
			if changed != (seconds(before) != seconds(now)) {
				t.Errorf("%s: message %d: changed = %t", name, i, changed)
			}
		}
	}
	var skew host.Skew
	for range 2 {
		skew.Add(time.Time{}, received)
	}
	if told := skew.Told(); told == nil || *told > -50*365*24*time.Hour {
		t.Errorf("a clock without sense is %v ahead", told)
	}
}

func seconds(skew *time.Duration) int {
	if skew == nil {
		return -1
	}
	return int(skew.Seconds())
}

func TestClockSkewed(t *testing.T) {
	before := metav1.Condition{Type: infrav1.ClockSkewedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostClockBehindReason, Message: "as before"}
	for name, tc := range map[string]struct {
		skew    *time.Duration
		before  []metav1.Condition
		want    metav1.ConditionStatus
		reason  string
		message string
	}{
		"never measured":               {want: metav1.ConditionFalse, reason: infrav1.HostClocksAgreeReason},
		"not measured since a restart": {before: []metav1.Condition{before}, want: metav1.ConditionTrue, reason: infrav1.HostClockBehindReason, message: "as before"},
		"measured after it":            {skew: ptr.To(time.Second), before: []metav1.Condition{before}, want: metav1.ConditionFalse, reason: infrav1.HostClocksAgreeReason},
		"just within":                  {skew: ptr.To(29 * time.Second), want: metav1.ConditionFalse, reason: infrav1.HostClocksAgreeReason},
		"ahead":                        {skew: ptr.To(30 * time.Second), want: metav1.ConditionTrue, reason: infrav1.HostClockAheadReason, message: "30 s ahead of the manager's"},
		"behind":                       {skew: ptr.To(-time.Hour), want: metav1.ConditionTrue, reason: infrav1.HostClockBehindReason, message: "3600 s behind the manager's"},
		"the message says what to do":  {skew: ptr.To(time.Hour), want: metav1.ConditionTrue, reason: infrav1.HostClockAheadReason, message: "timedatectl"},
	} {
		h := free()
		h.Status.Conditions = append(h.Status.Conditions, tc.before...)
		got := meta.FindStatusCondition(host.Conditions(h, host.Facts{ClockSkew: tc.skew}), infrav1.ClockSkewedCondition)
		if got == nil || got.Status != tc.want || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
			t.Errorf("%s: %+v, want %s %s %q", name, got, tc.want, tc.reason, tc.message)
		}
	}
}

func TestRequestReset(t *testing.T) {
	for name, tc := range map[string]struct {
		host      *infrav1.Host
		policy    infrav1.ResetPolicy
		requested bool
		want      infrav1.ResetPolicy
	}{
		"default":           {claimed(infrav1.HostDesiredBootstrapped, ""), "", true, infrav1.ResetPolicyKubeadm},
		"policy of machine": {claimed(infrav1.HostDesiredBootstrapped, ""), infrav1.ResetPolicyManual, true, infrav1.ResetPolicyManual},
		"policy of host": {claimed(infrav1.HostDesiredBootstrapped, "", func(h *infrav1.Host) {
			h.Spec.ResetPolicy = infrav1.ResetPolicyManual
		}), "", true, infrav1.ResetPolicyManual},
		"already requested": {claimed(infrav1.HostDesiredReset, ""), infrav1.ResetPolicyManual, false, ""},
		"free":              {free(), "", false, ""},
	} {
		if got := host.RequestReset(tc.host, tc.policy); got != tc.requested {
			t.Errorf("%s: requested = %t", name, got)
		}
		if tc.requested && (tc.host.Spec.Desired.ResetPolicy != tc.want || tc.host.Spec.Desired.OperationID != "reset-id") {
			t.Errorf("%s: desired = %+v", name, tc.host.Spec.Desired)
		}
	}
}

func TestParse(t *testing.T) {
	if ns, name, ok := host.ParseAgentUser(infrav1.AgentUser("ns", "h.example", "0123")); !ok || ns != "ns" || name != "h.example" {
		t.Errorf("ParseAgentUser = %s, %s, %t", ns, name, ok)
	}
	for _, user := range []string{"", "slipway:host:", "slipway:host:ns", "slipway:host:ns:", "slipway:host::h", "slipway:host:ns:h", "slipway:host:ns:h:", "slipway:host:ns:h:x:y", "system:node:h"} {
		if _, _, ok := host.ParseAgentUser(user); ok {
			t.Errorf("ParseAgentUser accepts %q", user)
		}
	}
	enrollment := infrav1.EnrollmentUser("ns", "h.example", "0123")
	if ns, name, ok := host.ParseEnrollmentUser(enrollment); !ok || ns != "ns" || name != "h.example" {
		t.Errorf("ParseEnrollmentUser = %s, %s, %t", ns, name, ok)
	}
	if got := host.AgentOfEnrollment(enrollment); got != infrav1.AgentUser("ns", "h.example", "0123") {
		t.Errorf("AgentOfEnrollment = %s", got)
	}
	for _, user := range []string{"", "slipway:enrollment:ns:h", "slipway:host:ns:h:0123", "system:node:h"} {
		if got := host.AgentOfEnrollment(user); got != "" {
			t.Errorf("AgentOfEnrollment(%q) = %s", user, got)
		}
	}
	if ns, name, claim, ok := host.ParseProviderID(infrav1.ProviderID("ns", "h", "c")); !ok || ns != "ns" || name != "h" || claim != "c" {
		t.Errorf("ParseProviderID = %s, %s, %s, %t", ns, name, claim, ok)
	}
	for _, id := range []string{"", "slipway://", "slipway://ns/h", "slipway://ns/h/", "slipway://ns/h/c/x", "aws:///ns/h/c"} {
		if _, _, _, ok := host.ParseProviderID(id); ok {
			t.Errorf("ParseProviderID accepts %q", id)
		}
	}
}

// Names that look like something else, and the longest ones.
func TestOddNamesAreParsed(t *testing.T) {
	const claim = "6a0b1f9e-0000-4000-8000-000000000000"
	id, long := strings.Repeat("0", 64), strings.Repeat("a", 63)
	for _, namespace := range []string{"1234", "007", "1e3", "true", "no", "null", "pools", long} {
		for _, name := range []string{"1234", "0x10", "true", "no", "a.b.c", "1.2.3.4", "pools", long, strings.Repeat("a.", 31) + "a"} {
			if ns, n, c, ok := host.ParseProviderID(infrav1.ProviderID(namespace, name, claim)); !ok || ns != namespace || n != name || c != claim {
				t.Errorf("provider ID of %s/%s: %s, %s, %s, %t", namespace, name, ns, n, c, ok)
			}
			if ns, n, ok := host.ParseAgentUser(infrav1.AgentUser(namespace, name, id)); !ok || ns != namespace || n != name {
				t.Errorf("user of %s/%s: %s, %s, %t", namespace, name, ns, n, ok)
			}
		}
	}
}

func TestID(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := host.ID(key.Public())
	if err != nil || len(id) != 64 || strings.ToLower(id) != id {
		t.Errorf("ID = %q, %v", id, err)
	}
	if _, err := host.ID("no key"); err == nil {
		t.Error("ID accepts what is no key")
	}
}
