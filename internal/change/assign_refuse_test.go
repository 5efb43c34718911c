package change_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// there makes a Host in the other namespace; connected is what the manager says of its agent.
func (w *world) there(name, hostID string, connected metav1.ConditionStatus, mutate ...func(*infrav1.Host)) *infrav1.Host {
	w.t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.to, Name: name}, Spec: infrav1.HostSpec{HostID: hostID}}
	for _, m := range mutate {
		m(h)
	}
	if err := env.Client.Create(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
	conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: connected, Reason: "Test", Message: "It said so"})
	if connected == metav1.ConditionTrue {
		h.Status.BootID = "boot"
	}
	if err := env.Client.Status().Update(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// A host that cannot go stays as it is, with a word on why.
func TestRefused(t *testing.T) {
	claim := func(h *infrav1.Host) {
		h.Spec.Claim = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "id"}
	}
	for name, tc := range map[string]struct {
		host func(*infrav1.Host)
		// report changes what the agent reported.
		report func(*infrav1.HostStatus)
		away   bool
		// there makes a Host in the other namespace.
		there func(w *world, hostID string)
		want  string
	}{
		"not enrolled":      {host: func(h *infrav1.Host) { h.Spec.HostID = "" }, want: "is not enrolled yet (spec.hostID is empty)"},
		"claimed":           {host: claim, want: "HostMachine m of Cluster c has the Host"},
		"not approved":      {host: func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending }, want: "is Enrolling, and only one that is Available can be assigned: The host is not approved"},
		"quarantined":       {report: func(s *infrav1.HostStatus) { s.CleanProof, s.Residue = nil, []string{"/etc/kubernetes"} }, want: "is Quarantined, and only one that is Available can be assigned: The host has software"},
		"not connected":     {away: true, want: "is not connected, so it would not go"},
		"goes elsewhere":    {host: func(h *infrav1.Host) { h.Spec.AssignedNamespace = "third" }, want: "is on its way to namespace third (spec.assignedNamespace)"},
		"a name in advance": {there: func(w *world, _ string) { w.there("h1", "", metav1.ConditionFalse) }, want: "waits for another machine (spec.hostID is empty)"},
		"another machine's": {there: func(w *world, _ string) { w.there("h1", "thief", metav1.ConditionFalse) }, want: "belongs to another machine: its spec.hostID is thief"},
		"a clone":           {there: func(w *world, id string) { w.there("h1", id, metav1.ConditionTrue) }, want: "has the same spec.hostID and a connected agent"},
		"a Host that goes on": {
			there: func(w *world, id string) {
				w.there("h1", id, metav1.ConditionFalse, func(h *infrav1.Host) { h.Spec.AssignedNamespace = "third" })
			},
			want: "is itself assigned to namespace third",
		},
		"of an earlier time": {
			host:  func(h *infrav1.Host) { h.Spec.ClaimGeneration = 2 },
			there: func(w *world, id string) { w.there("h1", id, metav1.ConditionFalse) },
			want:  "has spec.claimGeneration 0, and the host has served 2",
		},
		"a Host that goes": {
			there: func(w *world, id string) {
				h := w.there("h1", id, metav1.ConditionFalse, func(h *infrav1.Host) { h.Finalizers = []string{infrav1.HostFinalizer} })
				if err := env.Client.Delete(w.t.Context(), h); err != nil {
					w.t.Fatal(err)
				}
			},
			want: "is being deleted: try again once it is gone",
		},
		"claimed after an interruption": {
			host: claim, there: func(w *world, id string) { w.there("h1", id, metav1.ConditionFalse) },
			want: "which an earlier run made for it, is left over: delete it with `kubectl -n ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			mutate := tc.host
			if mutate == nil {
				mutate = func(*infrav1.Host) {}
			}
			a := w.free("h1", mutate)
			if tc.report != nil {
				a.Report(t, tc.report)
			}
			if tc.away {
				a.Connect(t, false)
			}
			if tc.there != nil {
				tc.there(w, testenv.HostID(w.from, "h1"))
			}
			before, beforeThere := w.get(w.from, "h1"), w.get(w.to, "h1")
			results, err := w.assign(env.Client, time.Second, "h1")
			if err == nil || !strings.HasPrefix(err.Error(), "host h1: ") || !strings.Contains(err.Error(), tc.want) || len(results) > 0 {
				t.Errorf("got %+v, %v, want %q", results, err, tc.want)
			}
			after, afterThere := w.get(w.from, "h1"), w.get(w.to, "h1")
			if after.ResourceVersion != before.ResourceVersion || (afterThere == nil) != (beforeThere == nil) || afterThere != nil && afterThere.ResourceVersion != beforeThere.ResourceVersion {
				t.Errorf("it was changed: %+v\n%+v", after.Spec, afterThere)
			}
		})
	}
}

// A Host that is being deleted sets out for nowhere.
func TestDeletedIsRefused(t *testing.T) {
	w := newWorld(t)
	if err := env.Client.Delete(t.Context(), w.free("h1").Host(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.assign(env.Client, time.Second, "h1"); err == nil || !strings.Contains(err.Error(), "is being deleted: enroll its machine in namespace "+w.to) || w.get(w.to, "h1") != nil {
		t.Errorf("got %v", err)
	}
}

// Where the Host is there alone, its agent must be, too.
func TestThereAndAway(t *testing.T) {
	w := newWorld(t)
	w.there("h1", "key", metav1.ConditionFalse)
	if _, err := w.assign(env.Client, time.Second, "h1"); err == nil || !strings.Contains(err.Error(), "There is a Host "+w.to+"/h1, whose agent is not connected") || !strings.Contains(err.Error(), "It said so") {
		t.Errorf("got %v", err)
	}
}
