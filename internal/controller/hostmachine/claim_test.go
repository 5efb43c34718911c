package hostmachine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestClaimToProvisioned(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", func(h *infrav1.Host) {
		h.Labels, h.Spec.FailureDomain = map[string]string{"disk": "nvme", "row": "7"}, "rack-1"
	})
	key := w.machine("m1", func(m *clusterv1.Machine, hostMachine *infrav1.HostMachine) {
		hostMachine.Spec.NodeLabels = []infrav1.HostLabelKey{"disk"}
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
	})

	m, _ := w.reconcile(key)
	h := agent.Host(t)
	claim := &infrav1.HostClaim{MachineName: "m1", ClusterName: testenv.ClusterName, ClaimID: m.Spec.ClaimID, ControlPlane: ptr.To(true)}
	if !reflect.DeepEqual(h.Spec.Claim, claim) {
		t.Fatalf("claim = %+v", h.Spec.Claim)
	}
	want := infrav1.HostDesired{
		Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap-" + m.Spec.ClaimID, BootstrapSecretName: "bootstrap-m1",
		Version: testenv.Version, ProviderID: m.Spec.ProviderID, VirtualIP: testenv.VirtualIP, VirtualIPPort: testenv.VirtualIPPort, InitializesControlPlane: ptr.To(true),
		NodeLabels: map[string]string{"disk": "nvme", "topology.kubernetes.io/zone": "rack-1"},
	}
	if !reflect.DeepEqual(*h.Spec.Desired, want) {
		t.Errorf("desired = %+v, want %+v", *h.Spec.Desired, want)
	}
	if m.Spec.ProviderID != fmt.Sprintf("slipway://%s/host-1/%s", w.namespace, m.Spec.ClaimID) {
		t.Errorf("providerID = %s", m.Spec.ProviderID)
	}
	if h.Spec.ClaimGeneration != 1 {
		t.Errorf("claimGeneration = %d, want 1", h.Spec.ClaimGeneration)
	}
	if ptr.Deref(m.Status.Initialization.Provisioned, false) || !conditions.IsFalse(m, clusterv1.ReadyCondition) {
		t.Errorf("provisioned before the agent reported: %+v", m.Status)
	}

	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || !conditions.IsTrue(m, clusterv1.ReadyCondition) {
		t.Errorf("not provisioned after the agent's success: %+v", m.Status)
	}
	if len(m.Status.Addresses) != 1 || m.Status.FailureDomain != "rack-1" || m.Status.HostRef.Name != "host-1" {
		t.Errorf("status does not mirror the host: %+v", m.Status)
	}
	if secret := agent.Host(t).Spec.Desired.BootstrapSecretName; secret != "" {
		t.Errorf("the operation still names Secret %s", secret)
	}
}

func TestPreconditions(t *testing.T) {
	for name, tc := range map[string]struct {
		machine func(*clusterv1.Machine, *infrav1.HostMachine)
		reason  string
		message string
	}{
		"no bootstrap data": {
			machine: func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "x"}}
			},
			reason: "WaitingForBootstrapData",
		},
		"no cluster": {
			machine: func(_ *clusterv1.Machine, m *infrav1.HostMachine) { m.Labels = nil },
			reason:  "WaitingForCluster",
		},
		"no host of that version": {
			machine: func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = "v1.35.0" },
			reason:  "NoHostFits", message: "1 Kubernetes v1.35.0 not installed (host-1)",
		},
		"no host in the failure domain": {
			machine: func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.FailureDomain = "rack-9" },
			reason:  "NoHostFits", message: "1 not in failure domain rack-9 (host-1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1")
			m, _ := w.reconcile(w.machine("m1", tc.machine))
			got := conditions.Get(m, infrav1.HostClaimedCondition)
			if got == nil || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("HostClaimed = %+v, want %s: %s", got, tc.reason, tc.message)
			}
			if h := agent.Host(t); h.Spec.Claim != nil {
				t.Errorf("the host was claimed: %+v", h.Spec.Claim)
			}
		})
	}
}

// A manager killed after any of its writes leaves a state from which the next one
// gets to the same end, with one host claimed once.
func TestCrashAfterEachWrite(t *testing.T) {
	testenv.KilledAtEachWrite(t, 4, func(t *testing.T, crash *testenv.Crash) {
		w := crashWorld(t)
		agents := []*testenv.Agent{w.host("host-1"), w.host("host-2")}
		key := w.machine("m1")
		killed := w.reconciler(testenv.NewCrashing(env.Client, crash))
		for range 10 {
			if _, err := killed.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil && !errors.Is(err, testenv.ErrCrashed) && !strings.Contains(err.Error(), testenv.ErrCrashed.Error()) {
				t.Fatal(err)
			}
		}

		m, _ := w.reconcile(key)
		claimed := 0
		for _, agent := range agents {
			if h := agent.Host(t); h.Spec.Claim != nil {
				claimed++
				if h.Spec.ClaimGeneration != 1 || h.Spec.Claim.ClaimID != m.Spec.ClaimID {
					t.Errorf("Host %s: generation %d, claim %+v; machine %s", h.Name, h.Spec.ClaimGeneration, h.Spec.Claim, m.Spec.ClaimID)
				}
			}
		}
		if claimed != 1 || !conditions.IsTrue(m, infrav1.HostClaimedCondition) {
			t.Errorf("%d hosts claimed, want 1; %+v", claimed, m.Status.Conditions)
		}
	})
}

// A manager that is new has a cache that may show neither the claim of the one before nor
// that its host is taken: the machine gets the host it has, not a second one.
func TestClaimThatTheCacheDoesNotShow(t *testing.T) {
	w := newWorld(t)
	free, taken := w.host("host-1"), w.host("host-2")
	key := w.machineOfClaim(taken, "before")
	w.Reconciler = w.reconciler(interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			hosts, ok := list.(*infrav1.HostList)
			if options := (&client.ListOptions{}).ApplyOptions(opts); ok && options.FieldSelector != nil {
				return nil
			}
			if err := c.List(ctx, list, opts...); err != nil || !ok {
				return err
			}
			for i := range hosts.Items {
				hosts.Items[i].Spec.Claim = nil
			}
			return nil
		},
	}))
	w.APIReader = env.Client

	m, _ := w.reconcile(key)
	if want := infrav1.ProviderID(w.namespace, "host-2", "before"); m.Spec.ProviderID != want {
		t.Errorf("providerID = %q, want %q", m.Spec.ProviderID, want)
	}
	if h := free.Host(t); h.Spec.Claim != nil {
		t.Errorf("a second host was claimed: %+v", h.Spec.Claim)
	}
	second, _ := w.reconcile(w.machine("m2"))
	if second.Status.HostRef.Name != "host-1" {
		t.Errorf("the next machine has host %q: %+v", second.Status.HostRef.Name, second.Status.Conditions)
	}
}

// The one host there is may be the machine's already, and then fits nobody.
func TestClaimThatLeavesNoHost(t *testing.T) {
	w := newWorld(t)
	m, _ := w.reconcile(w.machineOfClaim(w.host("host-1"), "before"))
	if want := infrav1.ProviderID(w.namespace, "host-1", "before"); m.Spec.ProviderID != want {
		t.Errorf("providerID = %q, want %q: %+v", m.Spec.ProviderID, want, m.Status.Conditions)
	}
}

// machineOfClaim is a machine whose manager was killed after it took the host and before it
// recorded the providerID.
func (w *world) machineOfClaim(agent *testenv.Agent, claimID string) client.ObjectKey {
	w.t.Helper()
	key := w.machine("m1", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
		m.Finalizers = []string{infrav1.HostMachineFinalizer}
		m.Spec.ClaimID = claimID
	})
	h := agent.Host(w.t)
	h.Spec.Claim = &infrav1.HostClaim{MachineName: key.Name, ClusterName: testenv.ClusterName, ClaimID: claimID}
	h.Spec.ClaimGeneration = 1
	if err := env.Client.Update(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
	return key
}

// Each report of a free host wakes every machine that waits: with no host that fits they
// ask the cache only.
func TestWaitingCostsTheAPIServerNothing(t *testing.T) {
	w := newWorld(t)
	w.host("host-1")
	looks := 0
	w.APIReader = interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			looks++
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			looks++
			return c.Get(ctx, key, obj, opts...)
		},
	})
	key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.Version = "v1.35.0" })
	for range 3 {
		if m, _ := w.reconcile(key); conditions.GetReason(m, infrav1.HostClaimedCondition) != infrav1.HostMachineNoHostFitsReason {
			t.Fatalf("it does not wait for a host: %+v", m.Status.Conditions)
		}
	}
	if looks > 0 {
		t.Errorf("%d reads past the cache, want none", looks)
	}
}

// crashWorld is a world that runs one after the other.
func crashWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, namespace: env.Namespace(t), clock: newClock()}
	w.Reconciler = w.reconciler(env.Client)
	testenv.NewCluster(t, env.Client, w.namespace)
	return w
}

// Two managers each took a host for one machine; the providerID names the first.
func TestSurplusHostIsReset(t *testing.T) {
	w := newWorld(t)
	kept, surplus := w.host("host-1"), w.host("host-2")
	key := w.machine("m1")
	m, _ := w.reconcile(key)
	if kept.Host(t).Spec.Claim == nil {
		kept, surplus = surplus, kept
	}

	h := surplus.Host(t)
	h.Spec.Claim = kept.Host(t).Spec.Claim
	h.Spec.ClaimGeneration = 1
	h.Spec.Desired = kept.Host(t).Spec.Desired
	if err := env.Client.Update(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	after, _ := w.reconcile(key)
	if h := surplus.Host(t); h.Spec.Desired.Phase != infrav1.HostDesiredReset {
		t.Errorf("the surplus host was not told to reset: %+v", h.Spec.Desired)
	}
	if h := kept.Host(t); h.Spec.Desired.Phase != infrav1.HostDesiredBootstrapped || after.Spec.ProviderID != m.Spec.ProviderID {
		t.Errorf("the machine's own host was touched: %+v", h.Spec.Desired)
	}
}

func TestBootstrapFailure(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("m1")
	w.reconcile(key)
	agent.FailNext = "kubeadm join exited with 1"
	agent.Obey(t, w.clock.Now())

	m, _ := w.reconcile(key)
	ready := conditions.Get(m, clusterv1.ReadyCondition)
	if ready.Reason != "BootstrapFailed" || !strings.Contains(ready.Message, "Step runcmd failed: kubeadm join exited with 1") || !strings.Contains(ready.Message, "Delete the Machine") {
		t.Errorf("Ready = %+v", ready)
	}
	if ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Error("provisioned after a failed bootstrap")
	}
}

func TestRotatedSecretIsFollowed(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("m1")
	w.reconcile(key)
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(context.Background(), key, machine); err != nil {
		t.Fatal(err)
	}
	machine.Spec.Bootstrap.DataSecretName = ptr.To("rotated")
	if err := env.Client.Update(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	before := agent.Host(t).Spec.Desired.OperationID
	w.reconcile(key)
	if got := agent.Host(t).Spec.Desired; got.BootstrapSecretName != "rotated" || got.OperationID != before {
		t.Errorf("desired = %+v", got)
	}
}

func TestPauseStopsTheClaim(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("m1", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	m, _ := w.reconcile(key)
	if !conditions.IsTrue(m, clusterv1.PausedCondition) || m.Spec.ClaimID != "" || agent.Host(t).Spec.Claim != nil {
		t.Errorf("a paused machine went on: %+v", m)
	}
	m.Annotations = nil
	if err := env.Client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	m, _ = w.reconcile(key)
	if !conditions.IsFalse(m, clusterv1.PausedCondition) || m.Spec.ProviderID == "" {
		t.Errorf("an unpaused machine did not go on: %+v", m)
	}
}

func TestMachineKeepsItsHostForLife(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("m1")
	w.reconcile(key)
	w.host("host-2")
	if err := env.Client.Delete(context.Background(), agent.Host(t)); err != nil {
		t.Fatal(err)
	}
	h := agent.Host(t)
	h.Finalizers = nil
	if err := env.Client.Update(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	m, _ := w.reconcile(key)
	if reason := conditions.GetReason(m, clusterv1.ReadyCondition); reason != "HostLost" {
		t.Errorf("Ready reason = %s, want HostLost", reason)
	}
	if !strings.Contains(m.Spec.ProviderID, "/host-1/") {
		t.Errorf("the machine went to another host: %s", m.Spec.ProviderID)
	}
}

// Core deletes the Node of a Machine after its host is free, and by its name: a host
// that is taken before would lose its new Node.
func TestHostIsFreeOnceItsFormerMachineIsGone(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	former := &clusterv1.Machine{}
	w.machine("former", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.Finalizers, m.Spec.ProviderID = []string{clusterv1.MachineFinalizer}, infrav1.ProviderID(w.namespace, "host-1", "former")
		former = m
	})
	if err := env.Client.Delete(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	key := w.machine("m1")
	m, _ := w.reconcile(key)
	if agent.Host(t).Spec.Claim != nil {
		t.Fatal("claimed while the former Machine was being deleted")
	}
	if got := conditions.GetMessage(m, infrav1.HostClaimedCondition); !strings.Contains(got, "its former HostMachine former is still there") && !strings.Contains(got, "its former Machine former is still there") {
		t.Errorf("message = %q", got)
	}
	if err := env.Client.Patch(t.Context(), former, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if m, _ = w.reconcile(key); m.Spec.ProviderID == "" {
		t.Error("not claimed once the former Machine was gone")
	}
}
