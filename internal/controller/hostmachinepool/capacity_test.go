package hostmachinepool_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestReplicasManagedByOthers(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{})
	w.changeMachinePool(func(mp *clusterv1.MachinePool) {
		mp.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "someone"}
		mp.Spec.Replicas = ptr.To[int32](9)
	})
	w.reconcile()
	if n := len(w.hostMachines()); n != 3 {
		t.Fatalf("%d members, want the 3 there were", n)
	}
	w.wantReplicas(3)

	machine := w.machines()[0]
	if err := env.Client.Delete(ctx, &machine); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if n := len(w.staying()); n != 2 {
		t.Fatalf("%d members after one was deleted", n)
	}
	w.wantReplicas(2)
	w.release()

	added := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "added", Labels: map[string]string{
		clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachinePoolNameLabel: "workers",
	}}}
	if err := env.Client.Create(ctx, added); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.wantReplicas(3)
	if m := w.staying()["added"]; m.Spec.Version != testenv.Version || m.Labels[infrav1.RevisionLabel] == "" || len(m.OwnerReferences) != 1 {
		t.Errorf("the member was not taken in: %+v", m)
	}

	w.run()
	w.upgrade()
	for range 12 {
		if got := w.versions(); got[nextVersion] == 3 && len(got) == 1 {
			break
		}
		w.reconcile()
		w.wantReplicas(3)
		w.run()
		w.reconcile()
		w.release()
	}
	w.reconcile()
	w.wantReplicas(3)
	if got := w.versions(); got[nextVersion] != 3 || len(got) != 1 {
		t.Errorf("versions = %v", got)
	}
}

func (w *world) wantReplicas(n int32) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.machinePool), w.machinePool); err != nil {
		w.t.Fatal(err)
	}
	if got := ptr.Deref(w.machinePool.Spec.Replicas, 0); got != n {
		w.t.Errorf("spec.replicas of the MachinePool = %d, want %d", got, n)
	}
}

// pooledHosts makes hosts that offer both versions in racks a, b, c.
func (w *world) pooledHosts(n int) {
	w.t.Helper()
	for i := range n {
		agent := testenv.NewHost(w.t, env.Client, w.key.Namespace, fmt.Sprintf("host-%d", i), w.clock.Now(), func(h *infrav1.Host) {
			h.Spec.FailureDomain = string(rune('a' + i%3))
			h.Labels = map[string]string{"row": fmt.Sprint(i % 2)}
		})
		agent.Report(w.t, func(s *infrav1.HostStatus) {
			s.Inventory.KubernetesVersions = []string{testenv.Version, nextVersion}
			s.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resourceOf(fmt.Sprint(4 + i)), corev1.ResourceMemory: *resourceOf(fmt.Sprintf("%dGi", 64-i))}
		})
	}
}

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		spread infrav1.HostMachinePoolSpread
		want   map[string]int
	}{
		"failure domain": {infrav1.HostMachinePoolSpread{Hard: ptr.To(true)}, map[string]int{"a": 2, "b": 2, "c": 1}},
		"label":          {infrav1.HostMachinePoolSpread{Key: "row"}, map[string]int{"0": 3, "1": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) { pool.Spec.Spread = &tc.spread })
			w.pooledHosts(6)
			w.scale(5)
			w.reconcile()
			got := map[string]int{}
			for _, m := range w.hostMachines() {
				got[m.Spec.Spread.Value]++
				if ptr.Deref(m.Spec.Spread.Hard, false) != ptr.Deref(tc.spread.Hard, false) || m.Spec.Spread.Key != tc.spread.Key {
					t.Errorf("spread = %+v", m.Spec.Spread)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("domains = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCapacityForScaleFromZero(t *testing.T) {
	w := newWorld(t, 0)
	w.pooledHosts(3)
	pool := w.reconcile()
	status := pool.Status
	if status.Capacity.Cpu().String() != "4" || status.Capacity.Memory().String() != "62Gi" ||
		status.NodeInfo != (infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}) {
		t.Errorf("capacity %v, nodeInfo %+v", status.Capacity, status.NodeInfo)
	}
	w.changePool(func(p *infrav1.HostMachinePool) {
		p.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"row": "1"}}
	})
	w.clock.Step(time.Minute)
	if pool = w.reconcile(); pool.Status.Capacity.Cpu().String() != "5" {
		t.Errorf("capacity = %v", pool.Status.Capacity)
	}
}

func resourceOf(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
