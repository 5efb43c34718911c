package hostmachinepool_test

import (
	"context"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// A pool that comes with a move is seen before its paused Cluster: its members are still
// to be created there, and must not be replaced.
func TestMovedPoolWaitsForItsCluster(t *testing.T) {
	w := newWorld(t, 2, func(_ *clusterv1.MachinePool, p *infrav1.HostMachinePool) {
		p.Spec.ProviderIDList = []string{"slipway://ns/h1/1", "slipway://ns/h2/2"}
	})
	w.Client = interceptor.NewClient(env.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(*clusterv1.Cluster); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	pool := w.reconcile()
	if n := len(w.hostMachines()); n != 0 || len(pool.Spec.ProviderIDList) != 2 {
		t.Errorf("it made %d members, and lists %v", n, pool.Spec.ProviderIDList)
	}
	if result, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil || result.RequeueAfter == 0 {
		t.Errorf("nobody looks again: %+v, %v", result, err)
	}
}

// clusterctl deletes a pool that it moved: the members are no longer of this cluster.
func TestMovedPoolDeletesNothing(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	pool := w.reconcile()
	pool.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	if err := env.Client.Update(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(ctx, pool); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			t.Errorf("Machine %s was deleted", m.Name)
		}
	}
	if n := len(w.hostMachines()); n != 2 {
		t.Errorf("%d HostMachines are left", n)
	}
}

// After a move or an update of the API a member may refer to its pool by an older version
// of the API, or by the UID of the object it was copied from.
func TestMemberRefersToThePoolAsItIs(t *testing.T) {
	w := newWorld(t, 1)
	w.reconcile()
	pool := w.reconcile()
	m := w.hostMachines()[0]
	m.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "infrastructure.slipway.dev/v1beta1", Kind: "HostMachinePool", Name: pool.Name, UID: "of-another-cluster"},
		{APIVersion: "example.com/v1", Kind: "HostMachinePool", Name: "of-somebody-else", UID: "x"},
	}
	if err := env.Client.Update(ctx, &m); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	want := []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "HostMachinePool", Name: "of-somebody-else", UID: "x"},
		{APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: pool.Name, UID: pool.UID},
	}
	if got := w.hostMachines()[0].OwnerReferences; !reflect.DeepEqual(got, want) {
		t.Errorf("owners %+v, want %+v", got, want)
	}
}
