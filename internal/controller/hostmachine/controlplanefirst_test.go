package hostmachine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// planeWorld has a control plane of three, of which one has a host, and so many free hosts.
func planeWorld(t *testing.T, free int) (*world, *unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t)
	w.host("host-0")
	plane := testenv.NewControlPlane(t, env.Client, w.namespace, 3, nil)
	if w.hostOf(w.machine("plane-1", testenv.OfControlPlane)) != "host-0" {
		t.Fatal("the first machine of the control plane has no host")
	}
	for i := range free {
		name := fmt.Sprintf("host-%d", i+1)
		w.host(name, func(h *infrav1.Host) { h.Labels = map[string]string{"name": name} })
	}
	return w, plane
}

func (w *world) cluster() *clusterv1.Cluster {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: testenv.ClusterName}, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// hostOf is the name of the host that a machine has once it was reconciled.
func (w *world) hostOf(key client.ObjectKey) string {
	w.t.Helper()
	m, _ := w.reconcile(key)
	return m.Status.HostRef.Name
}

// KubeadmControlPlane makes one machine after the other. What the workers of its Cluster take
// meanwhile decides whether the cluster ever has the control plane that was asked for.
func TestControlPlaneComesFirst(t *testing.T) {
	t.Run("hosts are reserved for it", func(t *testing.T) {
		w, _ := planeWorld(t, 3)
		if w.hostOf(w.machine("worker-1")) == "" {
			t.Error("worker-1 waits although the control plane can spare a host")
		}
		m, _ := w.reconcile(w.machine("worker-2"))
		claimed := conditions.Get(m, infrav1.HostClaimedCondition)
		if m.Spec.ProviderID != "" || claimed.Reason != infrav1.HostMachineControlPlaneFirstReason || !strings.Contains(claimed.Message, "2 reserved for the control plane, which needs 2 more (") || !strings.Contains(claimed.Message, infrav1.ControlPlaneFirstAnnotation) {
			t.Errorf("worker-2 has host %q: %+v", m.Status.HostRef.Name, claimed)
		}
		for _, name := range []string{"plane-2", "plane-3"} {
			if w.hostOf(w.machine(name, testenv.OfControlPlane)) == "" {
				t.Errorf("%s has no host", name)
			}
		}
		w.host("host-9")
		if w.hostOf(client.ObjectKeyFromObject(m)) != "host-9" {
			t.Error("worker-2 waits although the control plane lacks nothing")
		}
	})
	t.Run("a member of a pool is a worker", func(t *testing.T) {
		w, _ := planeWorld(t, 2)
		machinePool, pool := testenv.NewMachinePool(t, env.Client, w.namespace, "workers", 1)
		if got := w.hostOf(w.member(pool, machinePool)); got != "" {
			t.Errorf("the member took %s", got)
		}
	})
	t.Run("it is scaled down", func(t *testing.T) {
		w, plane := planeWorld(t, 2)
		worker := w.machine("worker-1")
		w.clock.Step(time.Minute)
		if m, result := w.reconcile(worker); m.Spec.ProviderID != "" || result.RequeueAfter == 0 {
			t.Fatalf("worker-1 has host %q, and looks again after %s", m.Status.HostRef.Name, result.RequeueAfter)
		}
		_ = unstructured.SetNestedField(plane.Object, int64(1), "spec", "replicas")
		if err := env.Client.Update(t.Context(), plane); err != nil {
			t.Fatal(err)
		}
		if w.hostOf(worker) == "" {
			t.Error("worker-1 waits although the control plane lacks nothing")
		}
	})
	t.Run("the Cluster opts out", func(t *testing.T) {
		w, _ := planeWorld(t, 1)
		cluster := w.cluster()
		cluster.Annotations = map[string]string{infrav1.ControlPlaneFirstAnnotation: "false"}
		if err := env.Client.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		if w.hostOf(w.machine("worker-1")) == "" {
			t.Error("worker-1 waits")
		}
	})
	t.Run("workers of another Cluster", func(t *testing.T) {
		w, _ := planeWorld(t, 1)
		status := w.cluster().Status
		other := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}, Spec: w.cluster().Spec}
		other.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
		if err := env.Client.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		other.Status = status
		if err := env.Client.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if w.hostOf(w.machine("worker-1", func(machine *clusterv1.Machine, m *infrav1.HostMachine) {
			machine.Spec.ClusterName = "other"
			machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "other"}
			m.Labels = machine.Labels
		})) == "" {
			t.Error("the worker waits for the control plane of another Cluster")
		}
	})
	t.Run("hosts that it cannot use", func(t *testing.T) {
		w := newWorld(t)
		testenv.NewControlPlane(t, env.Client, w.namespace, 3, map[string]string{"role": "plane"})
		w.host("host-1", func(h *infrav1.Host) { h.Labels = map[string]string{"role": "plane"} })
		w.host("host-2")
		if got := w.hostOf(w.machine("worker-1")); got != "host-2" {
			t.Errorf("worker-1 has host %q, want host-2", got)
		}
	})
	t.Run("a host that is reserved for a worker", func(t *testing.T) {
		w, _ := planeWorld(t, 2)
		if got := w.hostOf(w.machine("worker-1", func(_ *clusterv1.Machine, m *infrav1.HostMachine) { m.Spec.HostName = "host-2" })); got != "host-2" {
			t.Errorf("worker-1 has host %q, want host-2, which it names", got)
		}
	})
	t.Run("the best host turns out to be unfit", func(t *testing.T) {
		w, _ := planeWorld(t, 3)
		w.APIReader = interceptor.NewClient(env.Client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key.Name == "host-1" {
					return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		got := w.hostOf(w.machine("worker-1", func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
			m.Spec.Preferred = []infrav1.PreferredHosts{{Weight: 1, HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "host-1"}}}}
		}))
		if got != "" {
			t.Errorf("worker-1 took %s, which the control plane needs", got)
		}
	})
}
