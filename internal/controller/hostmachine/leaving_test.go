package hostmachine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// leaver is a machine with the object above it that is to be deleted.
type leaver struct {
	w      *world
	key    client.ObjectKey
	object client.Object
}

func clusterOf(w *world) client.Object {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: testenv.ClusterName}}
}

// madeBy is a machine with a controller: an object of another kind, of which only the metadata
// counts.
func madeBy(w *world, maker schema.GroupVersionKind, spec map[string]any, more ...metav1.OwnerReference) (client.ObjectKey, client.Object) {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(maker)
	o.SetNamespace(w.namespace)
	o.SetName("maker")
	o.SetOwnerReferences(more)
	if err := env.Client.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: maker.GroupVersion().String(), Kind: maker.Kind, Name: "maker", UID: o.GetUID(), Controller: ptr.To(true)}}
	})
	return key, o
}

func machineSet() map[string]any {
	return map[string]any{
		"clusterName": testenv.ClusterName,
		"selector":    map[string]any{"matchLabels": map[string]any{"set": "s"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"set": "s"}},
			"spec": map[string]any{
				"clusterName": testenv.ClusterName, "bootstrap": map[string]any{"dataSecretName": "s"},
				"infrastructureRef": map[string]any{"apiGroup": infrav1.GroupVersion.Group, "kind": "HostMachineTemplate", "name": "s"},
			},
		},
	}
}

// leavers are machines by what is being deleted.
var leavers = map[string]func(w *world) leaver{
	"Cluster of a machine": func(w *world) leaver { return leaver{w: w, key: w.machine("m1"), object: clusterOf(w)} },
	"Cluster of a machine of its control plane": func(w *world) leaver {
		key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
		})
		return leaver{w: w, key: key, object: clusterOf(w)}
	},
	"Machine": func(w *world) leaver {
		return leaver{w: w, key: w.machine("m1"), object: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m1"}}}
	},
	"MachineSet": func(w *world) leaver {
		key, o := madeBy(w, clusterv1.GroupVersion.WithKind("MachineSet"), machineSet())
		return leaver{w: w, key: key, object: o}
	},
	"MachineDeployment of a MachineSet": func(w *world) leaver {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": machineSet()}}
		o.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
		o.SetNamespace(w.namespace)
		o.SetName("workers")
		if err := env.Client.Create(context.Background(), o); err != nil {
			w.t.Fatal(err)
		}
		key, _ := madeBy(w, clusterv1.GroupVersion.WithKind("MachineSet"), machineSet(), metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "workers", UID: o.GetUID(), Controller: ptr.To(true),
		})
		return leaver{w: w, key: key, object: o}
	},
	"HostMachinePool": func(w *world) leaver {
		machinePool, pool := testenv.NewMachinePool(w.t, env.Client, w.namespace, "workers", 1)
		return leaver{w: w, key: w.member(pool, machinePool), object: pool}
	},
	"MachinePool": func(w *world) leaver {
		machinePool, pool := testenv.NewMachinePool(w.t, env.Client, w.namespace, "workers", 1)
		return leaver{w: w, key: w.member(pool, machinePool), object: machinePool}
	},
	"Cluster of a pool": func(w *world) leaver {
		machinePool, pool := testenv.NewMachinePool(w.t, env.Client, w.namespace, "workers", 1)
		return leaver{w: w, key: w.member(pool, machinePool), object: clusterOf(w)}
	},
	"Machine of a pool": func(w *world) leaver {
		machinePool, pool := testenv.NewMachinePool(w.t, env.Client, w.namespace, "workers", 1)
		key := w.member(pool, machinePool)
		machine := &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: key.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName}},
			Spec: clusterv1.MachineSpec{
				ClusterName: testenv.ClusterName, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("s")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: key.Name},
			},
		}
		if err := env.Client.Create(context.Background(), machine); err != nil {
			w.t.Fatal(err)
		}
		return leaver{w: w, key: key, object: machine}
	},
	"HostMachine": func(w *world) leaver {
		return leaver{w: w, key: w.machine("m1"), object: &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m1"}}}
	},
}

// begin deletes the object, which its finalizer keeps.
func (l leaver) begin() {
	l.w.t.Helper()
	testenv.DeleteHeldUp(l.w.t, env.Client, l.object)
}

// reconcileOver reconciles the machine a few times over a cache. Conflicts are the cache's.
func (l leaver) reconcileOver(cache client.Client) {
	l.w.t.Helper()
	r := l.w.reconciler(cache)
	r.APIReader = env.Client
	for range 6 {
		if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: l.key}); err != nil {
			l.w.t.Logf("reconcile: %v", err)
		}
	}
}

// A machine that waits takes no host once it, an owner or its Cluster is being deleted. A
// cache that is behind may cost a claim, which is given back unused, and never a bootstrap.
func TestLeavingMachineClaimsNoHost(t *testing.T) {
	testenv.Skip(t)
	for name, leaverOf := range leavers {
		for when, waits := range map[string]bool{"before the intent": false, "after the intent": true} {
			for seen, cache := range testenv.DeletionCaches(env.Client) {
				t.Run(name+"/"+when+"/"+seen, func(t *testing.T) {
					l := leaverOf(newWorld(t))
					if waits {
						if m, _ := l.w.reconcile(l.key); m.Spec.ClaimID == "" || m.Spec.ProviderID != "" {
							t.Fatalf("it does not wait with an intent: %+v", m.Spec)
						}
					}
					l.begin()
					agent := l.w.host("host-1")
					l.reconcileOver(cache)

					h, m := agent.Host(t), l.w.get(l.key)
					shown := seen == "shown by the cache"
					if h.Spec.Claim != nil && shown {
						t.Errorf("HostMachine %s claimed %s, want no claim", h.Spec.Claim.MachineName, h.Name)
					}
					if h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredBootstrapped {
						t.Errorf("%s has operation %s, want none", h.Name, h.Spec.Desired.OperationID)
					}
					if !waits && shown && m != nil && m.DeletionTimestamp.IsZero() {
						if m.Spec.ClaimID != "" && name != "HostMachine" {
							t.Errorf("claimID %q, want no intent", m.Spec.ClaimID)
						}
						wantCondition(t, m, infrav1.HostClaimedCondition, infrav1.HostMachineOwnerDeletingReason, l.object.GetName()+" is being deleted")
						wantCondition(t, m, clusterv1.ReadyCondition, infrav1.HostMachineOwnerDeletingReason, l.object.GetName()+" is being deleted")
					}
				})
			}
		}
	}
}

// claimedOnly is the state in which a manager that died after the claim leaves machine and host.
func (l leaver) claimedOnly(agent *testenv.Agent) {
	l.w.t.Helper()
	writes := 4 // finalizer, intent, claim and providerID
	if l.w.get(l.key).Spec.ClaimID != "" {
		writes = 3
	}
	killed := l.w.reconciler(testenv.NewCrashing(env.Client, &testenv.Crash{After: writes}))
	for range 6 {
		_, _ = killed.Reconcile(context.Background(), ctrl.Request{NamespacedName: l.key})
	}
	if m, h := l.w.get(l.key), agent.Host(l.w.t); m.Spec.ProviderID == "" || h.Spec.Claim == nil || h.Spec.Desired != nil {
		l.w.t.Fatalf("not between claim and operation: %+v, %+v", m.Spec, h.Spec)
	}
}

// A host that was claimed before the deletion and has no operation yet gets none, and its
// machine says why.
func TestLeavingMachineBootstrapsNoHost(t *testing.T) {
	testenv.Skip(t)
	for name, leaverOf := range leavers {
		for seen, cache := range testenv.DeletionCaches(env.Client) {
			t.Run(name+"/"+seen, func(t *testing.T) {
				l := leaverOf(newWorld(t))
				agent := l.w.host("host-1")
				l.claimedOnly(agent)
				l.begin()
				l.reconcileOver(cache)
				if h := agent.Host(t); h.Spec.Desired != nil && h.Spec.Desired.Phase == infrav1.HostDesiredBootstrapped {
					t.Errorf("%s has operation %s with Secret %s, want none", h.Name, h.Spec.Desired.OperationID, h.Spec.Desired.BootstrapSecretName)
				}
				if m := l.w.get(l.key); m != nil && name != "HostMachine" {
					wantCondition(t, m, infrav1.BootstrapSucceededCondition, infrav1.HostMachineBootstrapOwnerDeletingReason, "Host host-1 is claimed")
					wantCondition(t, m, clusterv1.ReadyCondition, infrav1.HostMachineReadyOwnerDeletingReason, l.object.GetName()+" is being deleted")
				}
			})
		}
	}
}

// Nor does a machine that leaves adopt a node.
func TestLeavingMachineAdoptsNoNode(t *testing.T) {
	testenv.Skip(t)
	for seen, cache := range testenv.DeletionCaches(env.Client) {
		t.Run(seen, func(t *testing.T) {
			w := newWorld(t)
			w.kubeconfig()
			agent := w.node("host-1")
			l := leaver{w: w, key: w.adopt("m1"), object: clusterOf(w)}
			l.begin()
			l.reconcileOver(cache)
			if h := agent.Host(t); h.Spec.Desired != nil || (h.Spec.Claim != nil && seen == "shown by the cache") {
				t.Errorf("claim %+v, desired %+v, want none", h.Spec.Claim, h.Spec.Desired)
			}
		})
	}
}

// A machine that runs and leaves is not upgraded any more. A reboot is still carried out: a
// drain may need it.
func TestLeavingMachineIsNotUpgraded(t *testing.T) {
	testenv.Skip(t)
	for seen, cache := range testenv.DeletionCaches(env.Client) {
		t.Run(seen, func(t *testing.T) {
			w := newWorld(t)
			agent := w.host("host-1")
			l := leaver{w: w, key: w.machine("m1"), object: clusterOf(w)}
			w.reconcile(l.key)
			agent.Obey(t, w.clock.Now())
			w.reconcile(l.key)
			agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = []string{testenv.Version, "v1.99.0"} })
			m := w.get(l.key)
			m.Spec.Version = "v1.99.0"
			if err := env.Client.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			l.begin()
			l.reconcileOver(cache)
			if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredBootstrapped {
				t.Fatalf("operation %s, want no upgrade", d.OperationID)
			}
			m = w.get(l.key)
			m.Spec.Reboots = ptr.To[int32](1)
			if err := env.Client.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			l.reconcileOver(cache)
			if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredRebooted {
				t.Errorf("operation %s, want the reboot", d.OperationID)
			}
		})
	}
}

// A machine that nobody deletes gets the host that one which leaves did not take.
func TestOthersClaimWhatALeavingMachineLeaves(t *testing.T) {
	w := newWorld(t)
	l := leavers["Machine"](w)
	l.begin()
	agent := w.host("host-1")
	l.reconcileOver(env.Client)
	if m, _ := w.reconcile(w.machine("m2")); m.Spec.ProviderID == "" || ptr.Deref(agent.Host(t).Spec.Claim, infrav1.HostClaim{}).MachineName != "m2" {
		t.Errorf("the machine that stays has no host: %+v", agent.Host(t).Spec.Claim)
	}
}

// A Machine whose MachineSet was deleted without its Machines is used like any other.
func TestMachineThatItsMakerLeftClaims(t *testing.T) {
	w := newWorld(t)
	key := w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "gone", UID: "gone", Controller: ptr.To(true)}}
	})
	agent := w.host("host-1")
	w.reconcile(key)
	if d := agent.Host(t).Spec.Desired; d == nil || d.Phase != infrav1.HostDesiredBootstrapped {
		t.Errorf("desired %+v", d)
	}
}

// A release says that a host proved to be clean only of a Host that is there.
func TestMissingHostProvedNothing(t *testing.T) {
	for name, c := range map[string]struct{ deleted, says string }{
		"released": {"", "Normal Released Reset of Host host-1 complete"},
		"missing":  {"host-1", "Warning ReleasedUnproved Host host-1 was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			w, agent, key := running(t)
			recorder := events.NewFakeRecorder(100)
			w.Recorder = recorder
			w.reconcile(key)
			agent.Obey(t, w.clock.Now())
			w.clear(agent)
			if c.deleted != "" {
				h := agent.Host(t)
				h.Finalizers = nil
				if err := env.Client.Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				if err := env.Client.Delete(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
			if m, _ := w.reconcile(key); m != nil {
				t.Fatalf("the machine does not go: %+v", m.Status)
			}
			close(recorder.Events)
			var told []string
			for event := range recorder.Events {
				told = append(told, event)
			}
			if !slices.ContainsFunc(told, func(event string) bool { return strings.HasPrefix(event, c.says) }) {
				t.Errorf("events %q, want %q", told, c.says)
			}
		})
	}
}
