package hostmachine_test

import (
	"reflect"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func newClock() *testclock.FakeClock { return testclock.NewFakeClock(time.Now()) }

// running is a machine on host-1 that was bootstrapped, then deleted.
func running(t *testing.T, mutate ...func(*infrav1.Host)) (*world, *testenv.Agent, client.ObjectKey) {
	t.Helper()
	w := newWorld(t)
	agent := w.host("host-1", mutate...)
	key := w.machine("m1")
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	w.delete(key)
	return w, agent, key
}

func TestReleaseWaitsForProof(t *testing.T) {
	w, agent, key := running(t)
	m, _ := w.reconcile(key)
	if m == nil {
		t.Fatal("the machine does not wait for its host")
	}
	h := agent.Host(t)
	want := infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-" + m.Spec.ClaimID, ResetPolicy: infrav1.ResetPolicyKubeadm}
	if !reflect.DeepEqual(*h.Spec.Desired, want) {
		t.Fatalf("desired = %+v, want %+v", *h.Spec.Desired, want)
	}

	agent.Obey(t, w.clock.Now())
	if m, _ = w.reconcile(key); m == nil {
		t.Fatal("the machine is gone before the claim was cleared")
	}
	w.clear(agent)
	if m, _ = w.reconcile(key); m != nil {
		t.Fatalf("the machine does not go after its release: %+v", m.Status)
	}
	if h := agent.Host(t); h.Spec.ClaimGeneration != 1 {
		t.Errorf("claimGeneration = %d, want 1", h.Spec.ClaimGeneration)
	}
}

func TestReleaseOfAnOfflineHost(t *testing.T) {
	w, agent, key := running(t)
	agent.Connect(t, false)
	if m, _ := w.reconcile(key); m != nil {
		t.Fatalf("the machine waits for a dead host: %+v", m.Status)
	}
	h := agent.Host(t)
	if h.Spec.Claim == nil || h.Spec.Desired == nil || h.Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Fatalf("the operation to reset is not on the host: %+v", h.Spec)
	}

	// The next machine must not get it before it proved to be clean.
	next := w.machine("m2")
	agent.Connect(t, true)
	if m, _ := w.reconcile(next); m.Spec.ProviderID != "" {
		t.Fatalf("an unproved host was claimed: %s", m.Spec.ProviderID)
	}
	agent.Obey(t, w.clock.Now())
	w.clear(agent)
	if m, _ := w.reconcile(next); m.Spec.ProviderID == "" {
		t.Errorf("a clean host was not claimed: %+v", m.Status.Conditions)
	}
	if h := agent.Host(t); h.Spec.ClaimGeneration != 2 {
		t.Errorf("claimGeneration = %d, want 2", h.Spec.ClaimGeneration)
	}
}

// An agent that goes offline in mid reset must not hold up the deletion either.
func TestReleaseWhenTheAgentDiesWhileResetting(t *testing.T) {
	w, agent, key := running(t)
	if m, _ := w.reconcile(key); m == nil {
		t.Fatal("the machine does not wait for a connected host")
	}
	agent.Connect(t, false)
	if m, _ := w.reconcile(key); m != nil {
		t.Errorf("the machine waits for a dead host: %+v", m.Status)
	}
}

func TestReleaseOfAQuarantinedHost(t *testing.T) {
	for name, tc := range map[string]struct {
		policy infrav1.ResetPolicy
		fail   string
	}{
		"manual policy": {policy: infrav1.ResetPolicyManual},
		"failed reset":  {fail: "mount /var/lib/kubelet is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			w, agent, key := running(t, func(h *infrav1.Host) { h.Spec.ResetPolicy = tc.policy })
			w.reconcile(key)
			agent.FailNext = tc.fail
			agent.Obey(t, w.clock.Now())
			if m, _ := w.reconcile(key); m != nil {
				t.Errorf("the machine waits for an operator: %+v", m.Status)
			}
			if h := agent.Host(t); h.Spec.Claim == nil {
				t.Error("a quarantined host lost its claim")
			}
		})
	}
}

func TestDeletionWithoutHost(t *testing.T) {
	w := newWorld(t)
	key := w.machine("m1")
	if m, _ := w.reconcile(key); m.Spec.ClaimID == "" {
		t.Fatal("no intent was recorded")
	}
	w.delete(key)
	if m, _ := w.reconcile(key); m != nil {
		t.Errorf("a machine without host does not go: %+v", m.Status)
	}
}

// The manager was killed after it took the host and before it recorded the
// providerID, and the machine was deleted meanwhile: the host must not leak.
func TestDeletionAfterAnUnrecordedClaim(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machineOfClaim(agent, "claim-1")
	w.delete(key)
	if m, _ := w.reconcile(key); m == nil {
		t.Fatal("the machine went without its host")
	}
	if h := agent.Host(t); h.Spec.Desired == nil || h.Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Errorf("the host was not told to reset: %+v", h.Spec.Desired)
	}
}

// The reset of a control-plane host tells its agent that the Cluster goes as well, also when the
// Cluster is deleted after the Machine.
func TestResetTellsThatTheClusterGoes(t *testing.T) {
	for name, c := range map[string]struct{ plane, leaves, late, want bool }{
		"control plane":                         {plane: true, leaves: true, want: true},
		"control plane, deleted afterwards":     {plane: true, leaves: true, late: true, want: true},
		"control plane of a Cluster that stays": {plane: true},
		"worker":                                {leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1")
			key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				if c.plane {
					m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
				}
			})
			w.reconcile(key)
			agent.Obey(t, w.clock.Now())
			w.reconcile(key)
			cluster := leaver{w: w, object: clusterOf(w)}
			if c.leaves && !c.late {
				cluster.begin()
			}
			w.delete(key)
			w.reconcile(key)
			if c.late {
				if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredReset || d.ClusterDeleting != nil {
					t.Fatalf("desired %+v", d)
				}
				cluster.begin()
				w.reconcile(key)
			}
			if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredReset || ptr.Deref(d.ClusterDeleting, false) != c.want {
				t.Errorf("desired %+v, want clusterDeleting %t", d, c.want)
			}
		})
	}
}
