package hostmachine_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// claimed is a machine that runs on host-1.
func claimed(t *testing.T) (*world, *testenv.Agent, client.ObjectKey) {
	t.Helper()
	w := newWorld(t)
	agent := w.host("host-1")
	key := w.machine("m1")
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	return w, agent, key
}

// pause pauses the Cluster, as clusterctl does before a move.
func (w *world) pause() { w.setPaused(true) }

func (w *world) setPaused(paused bool) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: testenv.ClusterName}, cluster); err != nil {
		w.t.Fatal(err)
	}
	cluster.Spec.Paused = ptr.To(paused)
	if err := env.Client.Update(context.Background(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// withoutClusters reads as a cache does that has lost, or not yet seen, the Clusters.
func withoutClusters() client.WithWatch {
	return interceptor.NewClient(env.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(*clusterv1.Cluster); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
	})
}

// The cache may show a machine that clusterctl deletes after it has lost its paused
// Cluster: its host must not hear of it.
func TestMovedMachineResetsNothing(t *testing.T) {
	for name, prepare := range map[string]func(*world, *infrav1.HostMachine){
		"the Cluster is paused": func(w *world, _ *infrav1.HostMachine) { w.pause() },
		"clusterctl deletes it": func(w *world, m *infrav1.HostMachine) {
			m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			if err := env.Client.Update(context.Background(), m); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, agent, key := claimed(t)
			prepare(w, w.get(key))
			w.delete(key)
			live := w.APIReader
			w.Reconciler = w.reconciler(withoutClusters())
			w.APIReader = live
			if m, _ := w.reconcile(key); m == nil {
				t.Error("the finalizer was taken off")
			}
			if h := agent.Host(t); h.Spec.Claim == nil || host.Releasing(h) {
				t.Errorf("the host was released: %+v", h.Spec)
			}
		})
	}
}

// Of a Cluster that is paused and deleted nothing is reset, and nothing claims. Once it goes on, what was deleted
// meanwhile is reset without its etcd, and what waits claims nothing either.
func TestPausedClusterThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	agent, key := w.host("host-1"), w.machine("m1", testenv.OfControlPlane)
	w.reconcile(key)
	agent.Obey(t, w.clock.Now())
	w.reconcile(key)
	waiting := w.machine("m2")
	w.pause()
	leaver{w: w, object: clusterOf(w)}.begin()
	w.delete(key)
	free := w.host("host-2")
	for range 3 {
		w.reconcile(key)
		w.reconcile(waiting)
	}
	if h := agent.Host(t); host.Releasing(h) || free.Host(t).Spec.Claim != nil {
		t.Fatalf("while it is paused: %+v, the free host has %+v", h.Spec, free.Host(t).Spec)
	}
	w.setPaused(false)
	w.reconcile(key)
	w.reconcile(waiting)
	if d := agent.Host(t).Spec.Desired; d.Phase != infrav1.HostDesiredReset || !ptr.Deref(d.ClusterDeleting, false) || free.Host(t).Spec.Claim != nil {
		t.Errorf("afterwards desired %+v, the free host has %+v", d, free.Host(t).Spec)
	}
}

// clusterctl has taken the finalizers off, and only the cache still shows the machine.
func TestGoneMachineResetsNothing(t *testing.T) {
	w, agent, key := claimed(t)
	w.delete(key)
	stale := w.get(key)
	m := w.get(key)
	m.Finalizers = nil
	if err := env.Client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w.Reconciler = w.reconciler(interceptor.NewClient(withoutClusters(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if machine, ok := o.(*infrav1.HostMachine); ok {
				stale.DeepCopyInto(machine)
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
	}))
	w.APIReader = env.Client
	w.reconcile(key)
	if h := agent.Host(t); h.Spec.Claim == nil || host.Releasing(h) {
		t.Errorf("the host was released: %+v", h.Spec)
	}
}

// A machine that comes with a move is left alone until its Cluster is seen: that is
// paused, and its host may not be there yet.
func TestMovedMachineWaitsForItsCluster(t *testing.T) {
	w, _, key := claimed(t)
	before := w.get(key)
	w.Reconciler = &hostmachine.Reconciler{Client: withoutClusters(), APIReader: env.Client, Recorder: w.Recorder, Clock: w.clock}
	after, result := w.reconcile(key)
	if after.ResourceVersion != before.ResourceVersion || result.RequeueAfter == 0 {
		t.Errorf("it was touched, or nobody looks again (%v): %+v", result, after.Status)
	}
}

// The status of the machine and of its host is lost, and the agent is away: what was
// provisioned is so all the same.
func TestProvisionedIsKnownFromSpec(t *testing.T) {
	w, agent, key := claimed(t)
	if h := agent.Host(t); !ptr.Deref(h.Spec.Desired.Bootstrapped, false) || !host.BlocksMove(h) {
		t.Fatalf("the bootstrap is not recorded, or a claimed host does not hold up a move: %+v %v", h.Spec.Desired, h.Annotations)
	}
	h := agent.Host(t)
	h.Status = infrav1.HostStatus{}
	if err := env.Client.Status().Update(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	m := w.get(key)
	m.Status = infrav1.HostMachineStatus{}
	if err := env.Client.Status().Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w.Reconciler = w.reconciler(env.Client)
	if m, _ = w.reconcile(key); !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.Version != testenv.Version {
		t.Errorf("status = %+v", m.Status)
	}
}
