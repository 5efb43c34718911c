package hostmachinetemplate_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinetemplate"
)

func TestCapacityIsReported(t *testing.T) {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "workers"}
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "host-1"}}
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	h.Status.Inventory.Architecture = "amd64"
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&infrav1.HostMachineTemplate{}, h).
		WithObjects(&infrav1.HostMachineTemplate{ObjectMeta: meta}, h).Build()
	r := &hostmachinetemplate.Reconciler{Client: c}

	reconcile := func() *infrav1.HostMachineTemplate {
		t.Helper()
		key := client.ObjectKey{Namespace: "ns", Name: "workers"}
		result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		template := &infrav1.HostMachineTemplate{}
		if err := c.Get(ctx, key, template); err != nil {
			t.Fatal(err)
		}
		return template
	}
	template := reconcile()
	if template.Status.Capacity.Cpu().String() != "4" || template.Status.NodeInfo != (infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}) {
		t.Fatalf("status = %+v", template.Status)
	}
	if again := reconcile(); again.ResourceVersion != template.ResourceVersion {
		t.Error("the status is written at each reconcile")
	}
	if err := c.Delete(ctx, h); err != nil {
		t.Fatal(err)
	}
	// A paused Cluster pauses its templates: they may be on the move.
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
	template.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	if err := errors.Join(c.Create(ctx, cluster), c.Update(ctx, template)); err != nil {
		t.Fatal(err)
	}
	if template = reconcile(); len(template.Status.Capacity) == 0 {
		t.Error("written while its Cluster is paused")
	}
	cluster.Spec.Paused = nil
	if err := c.Update(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	if template = reconcile(); len(template.Status.Capacity) != 0 {
		t.Errorf("capacity %v without hosts", template.Status.Capacity)
	}
}
