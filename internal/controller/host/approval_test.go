package host_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// policy is the HostApprovalPolicy of the namespace.
func (w *world) policy(mode infrav1.HostApprovalMode, hosts ...infrav1.HostMatch) *infrav1.HostApprovalPolicy {
	w.t.Helper()
	policy := &infrav1.HostApprovalPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: infrav1.HostApprovalPolicyName},
		Spec:       infrav1.HostApprovalPolicySpec{Mode: mode, Hosts: hosts},
	}
	if err := env.Client.Create(w.t.Context(), policy); err != nil {
		w.t.Fatal(err)
	}
	return policy
}

// TestEnrollmentAsksForApproval holds that a host is approved as it enrolls, or waits.
func TestEnrollmentAsksForApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		policy func(*world, string)
		// made in advance with an approval of its own.
		existing *infrav1.HostApproval
		want     infrav1.HostApproval
	}{
		"no policy": {want: infrav1.HostApprovalApproved},
		"auto":      {policy: func(w *world, _ string) { w.policy(infrav1.HostApprovalAuto) }, want: infrav1.HostApprovalApproved},
		"manual":    {policy: func(w *world, _ string) { w.policy(infrav1.HostApprovalManual) }, want: infrav1.HostApprovalPending},
		"match": {policy: func(w *world, id string) {
			w.policy(infrav1.HostApprovalMatch, infrav1.HostMatch{Name: "h1", HostID: id})
		}, want: infrav1.HostApprovalApproved},
		"match of another key": {policy: func(w *world, _ string) {
			w.policy(infrav1.HostApprovalMatch, infrav1.HostMatch{Name: "h1", HostID: "0"})
		}, want: infrav1.HostApprovalPending},
		"match that waits for a fact":  {policy: func(w *world, _ string) { w.policy(infrav1.HostApprovalMatch, infrav1.HostMatch{MachineID: "m"}) }, want: infrav1.HostApprovalPending},
		"manual, made in advance":      {policy: func(w *world, _ string) { w.policy(infrav1.HostApprovalManual) }, existing: new(infrav1.HostApproval), want: infrav1.HostApprovalPending},
		"manual, approved in advance":  {policy: func(w *world, _ string) { w.policy(infrav1.HostApprovalManual) }, existing: approval(infrav1.HostApprovalApproved), want: infrav1.HostApprovalApproved},
		"no policy, denied in advance": {existing: approval(infrav1.HostApprovalDenied), want: infrav1.HostApprovalDenied},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			key, hostID := newKey(t)
			if tc.policy != nil {
				tc.policy(w, hostID)
			}
			if tc.existing != nil {
				w.host("h1", func(h *infrav1.Host) { h.Spec.HostID, h.Spec.Approval = "", *tc.existing })
			}
			if got := w.decide(w.file(enrollment{}, key, nil)); got.decision != "Approved" {
				t.Fatalf("the agent gets no certificate: %+v", got)
			}
			h := &infrav1.Host{}
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "h1"}, h); err != nil {
				t.Fatal(err)
			}
			if h.Spec.Approval != tc.want || h.Spec.HostID != hostID {
				t.Errorf("approval = %q, want %q; hostID = %s", h.Spec.Approval, tc.want, h.Spec.HostID)
			}
		})
	}
}

func approval(a infrav1.HostApproval) *infrav1.HostApproval { return &a }

// TestPendingHostIsApprovedByAPolicy holds that a policy that comes to fit approves a
// host that waits, and that nothing else does.
func TestPendingHostIsApprovedByAPolicy(t *testing.T) {
	w := newWorld(t)
	pending := func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }
	a, denied := w.host("h1", pending), w.host("h2", func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied })
	earlier := w.host("h3", func(h *infrav1.Host) { h.Spec.Approval = "" })
	waits := func(when string) {
		t.Helper()
		h, _ := w.reconcile(a)
		available := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition)
		if h.Spec.Approval != infrav1.HostApprovalPending || available == nil || available.Reason != infrav1.HostNotApprovedReason || h.Status.Phase != infrav1.HostPhaseEnrolling {
			t.Fatalf("%s: approval %s, phase %s, %+v", when, h.Spec.Approval, h.Status.Phase, available)
		}
	}
	waits("without a policy")
	policy := w.policy(infrav1.HostApprovalMatch, infrav1.HostMatch{MachineID: "machine-1"})
	waits("before its machine-id is known")
	if err := env.Client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.Report(t, func(s *infrav1.HostStatus) { s.Inventory.MachineID = "machine-1" })
	waits("once the policy is gone")
	policy = w.policy(infrav1.HostApprovalMatch, infrav1.HostMatch{MachineID: "machine-1"})
	w.APIReader = stale{env.Client}
	waits("while the policy is one of the cache only")
	w.APIReader = env.Client
	if h, _ := w.reconcile(a); h.Spec.Approval != infrav1.HostApprovalApproved || !meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AvailableCondition) {
		t.Errorf("approval = %s: %+v", h.Spec.Approval, h.Status.Conditions)
	}
	policy.Spec = infrav1.HostApprovalPolicySpec{Mode: infrav1.HostApprovalAuto}
	w.update(policy)
	if h, _ := w.reconcile(denied); h.Spec.Approval != infrav1.HostApprovalDenied || meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AvailableCondition) {
		t.Errorf("denied: %s, %+v", h.Spec.Approval, h.Status.Conditions)
	}
	policy.Spec.Mode = infrav1.HostApprovalManual
	w.update(policy)
	for _, agent := range []client.ObjectKey{a.Key, earlier.Key} {
		h := &infrav1.Host{}
		w.reconcile(earlier)
		if err := env.Client.Get(t.Context(), agent, h); err != nil || !meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AvailableCondition) {
			t.Errorf("%s, which was there before: %v, %+v", agent.Name, err, h.Status.Conditions)
		}
	}
}

// stale has no policies, as an API server that says what the cache doesn't know yet.
type stale struct{ client.Reader }

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*infrav1.HostApprovalPolicy); ok {
		key.Name = "none"
	}
	return s.Reader.Get(ctx, key, o, options...)
}
