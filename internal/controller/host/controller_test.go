package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestAvailableHost(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	h, result := w.reconcile(agent)
	for _, condition := range []string{clusterv1.ReadyCondition, infrav1.AgentConnectedCondition, infrav1.AvailableCondition} {
		if !conditions.IsTrue(h, condition) {
			t.Errorf("%s = %+v", condition, conditions.Get(h, condition))
		}
	}
	if h.Status.Phase != infrav1.HostPhaseAvailable || !conditions.IsFalse(h, clusterv1.PausedCondition) {
		t.Errorf("status = %+v", h.Status)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > testenv.LeaseDuration {
		t.Errorf("looks again after %s, want when the heartbeat gets stale", result.RequeueAfter)
	}
}

// TestEnrollmentIsNoWarning reports as an agent does that has just enrolled: first the
// facts, then that the host is clean.
func TestEnrollmentIsNoWarning(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	agent.Report(t, func(s *infrav1.HostStatus) { s.CleanProof = nil })
	if h, _ := w.reconcile(agent); h.Status.Phase != infrav1.HostPhaseEnrolling || conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("before the proof: %s, %+v", h.Status.Phase, conditions.Get(h, infrav1.AvailableCondition))
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.CleanProof = &infrav1.CleanProof{Time: metav1.Now(), BootID: s.BootID} })
	if h, _ := w.reconcile(agent); h.Status.Phase != infrav1.HostPhaseAvailable {
		t.Errorf("after the proof: %s", h.Status.Phase)
	}
	for len(w.events) > 0 {
		if event := <-w.events; strings.HasPrefix(event, "Warning") {
			t.Errorf("a normal enrollment warns: %s", event)
		}
	}
}

// The agent and the controller share the status; neither may undo the other.
func TestStatusHasTwoOwners(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	h, _ := w.reconcile(agent)
	if !equality.Semantic.DeepEqual(h.Status.Inventory, agent.Status.Inventory) || h.Status.CleanProof == nil || len(h.Status.Addresses) != 1 {
		t.Fatalf("the controller took away what the agent reported: %+v", h.Status)
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.BootID = "boot-2"; s.Addresses = nil })
	h = agent.Host(t)
	if h.Status.Phase != infrav1.HostPhaseAvailable || !conditions.IsTrue(h, clusterv1.ReadyCondition) {
		t.Errorf("the agent took away what the controller wrote: %+v", h.Status)
	}
	if h, _ = w.reconcile(agent); h.Status.BootID != "boot-2" || h.Status.Addresses != nil {
		t.Errorf("the controller brought back what the agent withdrew: %+v", h.Status)
	}
	for _, entry := range h.ManagedFields {
		if entry.Manager == hostcontroller.FieldOwner && strings.Contains(entry.FieldsV1.GetRawString(), "bootID") {
			t.Errorf("the controller owns fields of the agent: %s", entry.FieldsV1.GetRawString())
		}
	}
}

// TestAgentKeepsNoCondition: an agent that applies a condition as it is owns it beside the controller.
func TestAgentKeepsNoCondition(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	h, _ := w.reconcile(agent)
	c := metav1.Condition{Type: infrav1.ReportAcceptedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostFieldsRefusedReason, LastTransitionTime: metav1.Now()}
	h.Status.Conditions = append(h.Status.Conditions, c)
	own, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&infrav1.HostStatus{Conditions: h.Status.Conditions})
	if err != nil {
		t.Fatal(err)
	}
	theirs := &unstructured.Unstructured{Object: map[string]any{"status": own}}
	theirs.SetGroupVersionKind(infrav1.GroupVersion.WithKind("Host"))
	theirs.SetNamespace(h.Namespace)
	theirs.SetName(h.Name)
	if err := env.Client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner("theirs"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if h, _ = w.reconcile(agent); conditions.Has(h, infrav1.ReportAcceptedCondition) {
		t.Errorf("a condition that does not hold any more is there: %+v", h.Status.Conditions)
	}
	if !conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("the others are gone: %+v", h.Status.Conditions)
	}
}

func TestHeartbeatCostsNoWrite(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	before, _ := w.reconcile(agent)
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
		agent.Heartbeat(t, w.clock.Now())
		if after, _ := w.reconcile(agent); after.ResourceVersion != before.ResourceVersion {
			t.Fatalf("a heartbeat changed the Host: %+v", after.Status)
		}
	}
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration))
	stale, _ := w.reconcile(agent)
	if reason := conditions.GetReason(stale, infrav1.AgentConnectedCondition); reason != "HeartbeatStale" {
		t.Errorf("AgentConnected reason = %s", reason)
	}
	if reason := conditions.GetReason(stale, infrav1.AvailableCondition); reason != "AgentNotConnected" {
		t.Errorf("Available reason = %s", reason)
	}
}

// Agents whose clocks are wrong are connected while they renew, and not when they don't;
// the Host says how wrong the clock is, and a manager that just started repeats what the
// one before it said.
func TestWrongClocks(t *testing.T) {
	for _, tc := range []struct {
		ahead           time.Duration
		status          metav1.ConditionStatus
		reason, message string
	}{
		{time.Hour, metav1.ConditionTrue, infrav1.HostClockAheadReason, "3600 s ahead of the manager's"},
		{-time.Hour, metav1.ConditionTrue, infrav1.HostClockBehindReason, "3600 s behind the manager's"},
		{time.Second, metav1.ConditionFalse, infrav1.HostClocksAgreeReason, ""},
	} {
		t.Run(tc.ahead.String(), func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1")
			check := func(when string, connected bool) {
				t.Helper()
				h, _ := w.reconcile(agent)
				if conditions.IsTrue(h, infrav1.AgentConnectedCondition) != connected {
					t.Errorf("%s: AgentConnected = %+v", when, conditions.Get(h, infrav1.AgentConnectedCondition))
				}
				if c := conditions.Get(h, infrav1.ClockSkewedCondition); c == nil || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) {
					t.Errorf("%s: ClockSkewed = %+v", when, c)
				}
			}
			beat := func() {
				w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
				agent.Heartbeat(t, w.clock.Now().Add(tc.ahead))
				w.reconcile(agent)
			}
			w.reconcile(agent)
			for range 3 {
				beat()
			}
			check("it renews", true)
			w.restart()
			check("the manager restarted", true)
			w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration - time.Second))
			check("nothing came since", true)
			w.clock.SetTime(w.clock.Now().Add(time.Second))
			check("it is dead", false)
			w.restart()
			check("it is dead, and the manager restarted", false)
			beat()
			check("it is back", true)
		})
	}
}

func TestAgentRights(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	w.reconcile(agent)
	w.claim(agent, infrav1.HostDesiredBootstrapped)
	w.reconcile(agent)
	w.checkRole(agent)

	binding := &rbacv1.RoleBinding{}
	if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: "slipway-host-host-1"}, binding); err != nil {
		t.Fatal(err)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != infrav1.AgentUser(w.namespace, "host-1", testenv.HostID(w.namespace, "host-1")) {
		t.Errorf("subjects = %+v", binding.Subjects)
	}
	if err := env.Client.Get(context.Background(), agent.Key, &coordinationv1.Lease{}); err != nil {
		t.Errorf("no Lease: %v", err)
	}
}

// checkRole checks that every right of the agent is tied to names, and none is to
// Secrets: those come and go with the operations.
func (w *world) checkRole(agent *testenv.Agent) {
	w.t.Helper()
	role := &rbacv1.Role{}
	key := client.ObjectKey{Namespace: w.namespace, Name: hostcontroller.RoleName(agent.Key.Name)}
	if err := env.Client.Get(context.Background(), key, role); err != nil {
		w.t.Fatal(err)
	}
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) == 0 || slices.Contains(rule.Resources, "secrets") {
			w.t.Errorf("a rule without names, or with Secrets: %+v", rule)
		}
	}
}

func TestClaimIsClearedOnProofOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		report  func(*infrav1.HostStatus)
		cleared bool
		phase   infrav1.HostPhase
	}{
		"not begun": {func(*infrav1.HostStatus) {}, false, infrav1.HostPhaseResetting},
		"running": {func(s *infrav1.HostStatus) {
			s.ObservedOperation = operation(infrav1.OperationRunning)
		}, false, infrav1.HostPhaseResetting},
		"done without proof": {func(s *infrav1.HostStatus) {
			s.ObservedOperation = operation(infrav1.OperationSucceeded)
		}, false, infrav1.HostPhaseQuarantined},
		"proof of an earlier claim": {func(s *infrav1.HostStatus) {
			s.ObservedOperation = operation(infrav1.OperationSucceeded)
			s.CleanProof.ClaimGeneration = 0
		}, false, infrav1.HostPhaseQuarantined},
		"proof without the operation": {func(s *infrav1.HostStatus) {
			s.CleanProof.ClaimGeneration = 1
		}, false, infrav1.HostPhaseResetting},
		"failed": {func(s *infrav1.HostStatus) {
			s.ObservedOperation = operation(infrav1.OperationFailed)
		}, false, infrav1.HostPhaseQuarantined},
		"proved": {func(s *infrav1.HostStatus) {
			s.ObservedOperation = operation(infrav1.OperationSucceeded)
			s.CleanProof.ClaimGeneration = 1
		}, true, infrav1.HostPhaseAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1")
			w.claim(agent, infrav1.HostDesiredReset)
			agent.Report(t, tc.report)
			h, _ := w.reconcile(agent)
			if cleared := h.Spec.Claim == nil && h.Spec.Desired == nil; cleared != tc.cleared {
				t.Errorf("cleared = %t, want %t: %+v", cleared, tc.cleared, h.Spec)
			}
			if h.Status.Phase != tc.phase {
				t.Errorf("phase = %s, want %s", h.Status.Phase, tc.phase)
			}
		})
	}
}

func operation(state infrav1.OperationState) *infrav1.ObservedOperation {
	return &infrav1.ObservedOperation{ID: "op-1", ClaimID: "claim-1", Phase: infrav1.HostDesiredReset, State: state}
}

// A node that was not adopted is nobody's to reset, whatever an operator says of the
// claim: it only ends.
func TestOrphanedAdoptionIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	machine := w.claim(agent, infrav1.HostDesiredAdopted)
	if err := env.Client.Delete(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	h, _ := w.reconcile(agent)
	if ready := conditions.Get(h, clusterv1.ReadyCondition); ready.Reason != "OrphanedClaim" || !strings.Contains(ready.Message, "leave the node as it is") {
		t.Errorf("Ready = %+v", ready)
	}
	h.Annotations = map[string]string{infrav1.ReleaseOrphanAnnotation: "claim-1"}
	w.update(h)
	if h, _ = w.reconcile(agent); h.Spec.Claim != nil || h.Spec.Desired != nil || h.Spec.ClaimGeneration != 1 {
		t.Errorf("the claim did not end: %+v", h.Spec)
	}
	if h.Status.Phase != infrav1.HostPhaseQuarantined {
		t.Errorf("phase %s", h.Status.Phase)
	}
}

func TestOrphanIsNeverReset(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	machine := w.claim(agent, infrav1.HostDesiredBootstrapped)
	if h, _ := w.reconcile(agent); conditions.GetReason(h, clusterv1.ReadyCondition) == "OrphanedClaim" {
		t.Fatal("orphaned although its machine exists")
	}
	if err := env.Client.Delete(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	h, _ := w.reconcile(agent)
	ready := conditions.Get(h, clusterv1.ReadyCondition)
	if ready.Reason != "OrphanedClaim" || !strings.Contains(ready.Message, infrav1.ReleaseOrphanAnnotation+"=claim-1") {
		t.Errorf("Ready = %+v", ready)
	}
	if h.Spec.Claim == nil || h.Spec.Desired.Phase != infrav1.HostDesiredBootstrapped {
		t.Fatalf("an orphan was touched: %+v", h.Spec)
	}

	h.Annotations = map[string]string{infrav1.ReleaseOrphanAnnotation: "claim-of-yesterday"}
	w.update(h)
	h, _ = w.reconcile(agent)
	if h.Spec.Desired.Phase != infrav1.HostDesiredBootstrapped || len(h.Annotations) > 0 {
		t.Fatalf("an annotation for another claim was obeyed or kept: %+v %v", h.Spec.Desired, h.Annotations)
	}
	h.Annotations = map[string]string{infrav1.ReleaseOrphanAnnotation: "claim-1"}
	w.update(h)
	if h, _ = w.reconcile(agent); h.Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Errorf("the operator's request was not obeyed: %+v", h.Spec.Desired)
	}
}

func TestClearQuarantine(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	w.claim(agent, infrav1.HostDesiredReset)
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = operation(infrav1.OperationFailed)
		s.ObservedOperation.Message = "busy"
	})
	h, _ := w.reconcile(agent)
	ready := conditions.Get(h, clusterv1.ReadyCondition)
	if ready.Reason != "ResetFailed" || !strings.Contains(ready.Message, "busy") || !strings.Contains(ready.Message, "`slipway host clear-quarantine ") {
		t.Fatalf("Ready = %+v", ready)
	}
	h.Annotations = map[string]string{infrav1.ClearQuarantineAnnotation: "true"}
	w.update(h)
	h, _ = w.reconcile(agent)
	if h.Spec.Claim != nil || h.Status.Phase != infrav1.HostPhaseAvailable || len(h.Annotations) > 0 || *h.Spec.ClearedGeneration != 1 {
		t.Errorf("the quarantine was not lifted: %+v %v", h.Spec, h.Annotations)
	}
}

// The annotation on a host that runs a machine must not free it.
func TestClearQuarantineOfARunningHost(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", func(h *infrav1.Host) {
		h.Annotations = map[string]string{infrav1.ClearQuarantineAnnotation: "true"}
	})
	w.claim(agent, infrav1.HostDesiredBootstrapped)
	if h, _ := w.reconcile(agent); h.Spec.Claim == nil || len(h.Annotations) > 0 || h.Spec.ClearedGeneration != nil {
		t.Errorf("spec = %+v, annotations = %v", h.Spec, h.Annotations)
	}
}

// A word that comes before its time waits, one for another claim is answered.
func TestConfirmationPendingForTheQuarantine(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", func(h *infrav1.Host) {
		h.Annotations = map[string]string{infrav1.ClearQuarantineAnnotation: "1"}
	})
	w.claim(agent, infrav1.HostDesiredReset)
	agent.Report(t, func(s *infrav1.HostStatus) { s.ObservedOperation = operation(infrav1.OperationRunning) })
	h, _ := w.reconcile(agent)
	if h.Spec.Claim == nil || h.Annotations[infrav1.ClearQuarantineAnnotation] != "1" {
		t.Fatalf("while it is reset: %+v, %v", h.Spec, h.Annotations)
	}
	// The agent has a later claim on record: the word is for that, too.
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = operation(infrav1.OperationFailed)
		s.Record = &infrav1.HostRecord{State: infrav1.HostRecordRemains, ClaimGeneration: ptr.To[int64](4)}
	})
	h, _ = w.reconcile(agent)
	if h.Spec.Claim != nil || len(h.Annotations) > 0 || *h.Spec.ClearedGeneration != 4 || h.Spec.ClaimGeneration != 4 {
		t.Fatalf("once it has failed: %+v, %v", h.Spec, h.Annotations)
	}
	h.Annotations = map[string]string{infrav1.ClearQuarantineAnnotation: "3"}
	w.update(h)
	if h, _ = w.reconcile(agent); len(h.Annotations) > 0 || *h.Spec.ClearedGeneration != 4 {
		t.Errorf("a word for an earlier claim: %+v, %v", h.Spec, h.Annotations)
	}
}

// A free host that an operator has reset is free once more when it proved to be clean.
func TestResetWithoutAClaimEnds(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", func(h *infrav1.Host) {
		h.Spec.ClaimGeneration = 1
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-x"}
	})
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.CleanProof = nil
		s.ObservedOperation = operation(infrav1.OperationFailed)
		s.ObservedOperation.ID, s.ObservedOperation.Message = "reset-x", "busy"
	})
	h, _ := w.reconcile(agent)
	if ready := conditions.Get(h, clusterv1.ReadyCondition); h.Spec.Desired == nil || ready.Reason != infrav1.HostResetFailedReason || !strings.Contains(ready.Message, "busy") {
		t.Fatalf("%+v, %+v", h.Spec, ready)
	}
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = operation(infrav1.OperationSucceeded)
		s.ObservedOperation.ID, s.CleanProof = "reset-x", &infrav1.CleanProof{ClaimGeneration: 1, BootID: "b", Time: metav1.Now()}
	})
	if h, _ = w.reconcile(agent); h.Spec.Desired != nil || h.Status.Phase != infrav1.HostPhaseAvailable {
		t.Errorf("%+v, %+v", h.Spec, h.Status)
	}
}

// TestWordOfARestoreEnds: a snapshot of this management cluster must not take it along.
func TestWordOfARestoreEnds(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	w.reconcile(agent)
	w.clock.SetTime(w.clock.Now().Add(testenv.LeaseDuration + time.Second))
	h := agent.Host(t)
	h.Annotations = map[string]string{infrav1.RestoredAnnotation: string(h.UID), "other": "stays"}
	w.update(h)
	if h, _ = w.reconcile(agent); !host.Restored(h) {
		t.Errorf("it is gone before the agent came: %v", h.Annotations)
	}
	agent.Heartbeat(t, w.clock.Now())
	h, _ = w.reconcile(agent)
	if _, there := h.Annotations[infrav1.RestoredAnnotation]; there || h.Annotations["other"] != "stays" {
		t.Errorf("once the agent is here: %v", h.Annotations)
	}
	if !conditions.IsTrue(h, infrav1.AgentConnectedCondition) {
		t.Error("the status does not tell that the agent is here")
	}
}

func TestDeletedHostStaysWhileItsMachineExists(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	machine := w.claim(agent, infrav1.HostDesiredBootstrapped)
	h, _ := w.reconcile(agent)
	if err := env.Client.Delete(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	if h, _ = w.reconcile(agent); h == nil || conditions.GetReason(h, infrav1.AvailableCondition) != "Deleting" {
		t.Fatalf("a claimed host went: %+v", h)
	}
	if err := env.Client.Delete(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	if h, _ = w.reconcile(agent); h != nil {
		t.Errorf("a host nobody needs does not go: %+v", h.Status)
	}
}

func TestPausedClusterPausesItsHosts(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	cluster := testenv.NewCluster(t, env.Client, w.namespace)
	cluster.Spec.Paused = ptr.To(true)
	w.update(cluster)
	w.claim(agent, infrav1.HostDesiredReset)
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = operation(infrav1.OperationSucceeded)
		s.CleanProof.ClaimGeneration = 1
	})
	h, _ := w.reconcile(agent)
	if !conditions.IsTrue(h, clusterv1.PausedCondition) || h.Spec.Claim == nil {
		t.Fatalf("a paused host went on: %+v", h)
	}
	cluster.Spec.Paused = nil
	w.update(cluster)
	if h, _ = w.reconcile(agent); h.Spec.Claim != nil {
		t.Errorf("an unpaused host did not go on: %+v", h.Spec)
	}
}
