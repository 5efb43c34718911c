package hostmachinepool_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// leavers are what a pool belongs to, itself included.
var leavers = map[string]func(w *world) client.Object{
	"Cluster": func(w *world) client.Object {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: testenv.ClusterName}}
	},
	"MachinePool": func(w *world) client.Object {
		return &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.machinePool.Name}}
	},
	"HostMachinePool": func(w *world) client.Object {
		return &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name}}
	},
}

// once reconciles over what the world's cache shows. Conflicts are the cache's.
func (w *world) once() {
	w.t.Helper()
	if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil {
		w.t.Logf("reconcile: %v", err)
	}
}

// everyLeaver runs a test for each of them, over each cache.
func everyLeaver(t *testing.T, test func(t *testing.T, leaver func(*world) client.Object, cache client.Client)) {
	t.Helper()
	testenv.Skip(t)
	for name, leaver := range leavers {
		for seen, cache := range testenv.DeletionCaches(env.Client) {
			t.Run(name+"/"+seen, func(t *testing.T) {
				t.Parallel()
				test(t, leaver, cache)
			})
		}
	}
}

// A pool that is being deleted, or whose MachinePool or Cluster is, makes no member.
func TestLeavingPoolMakesNoMember(t *testing.T) {
	everyLeaver(t, func(t *testing.T, leaver func(*world) client.Object, cache client.Client) {
		w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
		w.scale(3)
		before := w.names()
		testenv.DeleteHeldUp(w.t, env.Client, leaver(w))
		w.Client = cache
		for range 3 {
			w.once()
		}
		for name := range w.names() {
			if !before[name] {
				t.Errorf("made %s", name)
			}
		}
	})
}

// It replaces and upgrades none, either.
func TestLeavingPoolRollsNothingOut(t *testing.T) {
	everyLeaver(t, func(t *testing.T, leaver func(*world) client.Object, cache client.Client) {
		w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{})
		o := leaver(w)
		w.upgrade()
		before := w.names()
		testenv.DeleteHeldUp(w.t, env.Client, o)
		w.Client = cache
		for range 3 {
			w.once()
		}
		for name := range w.names() {
			if !before[name] {
				t.Errorf("made %s", name)
			}
		}
		if n := w.versions()[nextVersion]; n > 0 {
			t.Errorf("%d members are of the new version", n)
		}
		if _, ofCluster := o.(*clusterv1.Cluster); ofCluster && len(w.staying()) != 2 {
			t.Errorf("%d members stay, want 2", len(w.staying()))
		}
	})
}

// names are those of all members.
func (w *world) names() map[string]bool {
	w.t.Helper()
	names := map[string]bool{}
	for _, m := range w.hostMachines() {
		names[m.Name] = true
	}
	return names
}

// Scaling down is still carried out while the Cluster's deletion is held up, and RollingOut
// says why nothing else is.
func TestPoolOfALeavingClusterScalesDown(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{})
	testenv.DeleteHeldUp(w.t, env.Client, leavers["Cluster"](w))
	w.scale(2)
	w.reconcile()
	if n := len(w.staying()); n != 2 {
		t.Errorf("%d members stay, want 2", n)
	}
	w.upgrade()
	pool := w.reconcile()
	if c := conditions.Get(pool, clusterv1.RollingOutCondition); !strings.Contains(c.Message, "Cluster c1 is being deleted: no machine is added, replaced or upgraded") {
		t.Errorf("RollingOut = %+v", c)
	}
}

// A pool whose Cluster is being deleted remediates no machine.
func TestLeavingPoolRemediatesNothing(t *testing.T) {
	testenv.Skip(t)
	for name, action := range map[string]infrav1.RemediationAction{
		"reboot": infrav1.RemediationReboot, "rebootstrap": infrav1.RemediationRebootstrap, "replace": infrav1.RemediationReplace,
	} {
		for seen, cache := range testenv.DeletionCaches(env.Client) {
			t.Run(name+"/"+seen, func(t *testing.T) {
				t.Parallel()
				s := newSickbay(t, 2, ladder(action))
				s.addHost("spare")
				sick := s.hostMachines()[0].Name
				s.check(sick, false)
				testenv.DeleteHeldUp(s.t, env.Client, leavers["Cluster"](s.world))
				s.Client = cache
				before := s.names()
				for range 3 {
					s.once()
				}
				if m := s.member(sick); m.Spec.Reboots != nil || m.Annotations[infrav1.RemediationAnnotation] != "" {
					t.Errorf("remediation began: %+v, %v", m.Spec, m.Annotations)
				}
				if m := s.machine(sick); !m.DeletionTimestamp.IsZero() || len(s.names()) != len(before) {
					t.Errorf("the Machine is deleted at %s; members %v", m.DeletionTimestamp, s.names())
				}
			})
		}
	}
}

// Nor does it take in a HostMachine that somebody else made, which its end would delete.
func TestLeavingPoolTakesNothingIn(t *testing.T) {
	testenv.Skip(t)
	for seen, cache := range testenv.DeletionCaches(env.Client) {
		t.Run(seen, func(t *testing.T) {
			t.Parallel()
			w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
			stray := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "stray", Labels: map[string]string{
				clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachinePoolNameLabel: w.machinePool.Name,
			}}}
			if err := env.Client.Create(ctx, stray); err != nil {
				t.Fatal(err)
			}
			w.scale(2)
			testenv.DeleteHeldUp(w.t, env.Client, leavers["Cluster"](w))
			w.Client = cache
			w.once()
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(stray), stray); err != nil || len(stray.OwnerReferences) > 0 {
				t.Errorf("%v, owners %+v, want none", err, stray.OwnerReferences)
			}
		})
	}
}
