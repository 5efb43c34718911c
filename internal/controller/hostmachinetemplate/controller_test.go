package hostmachinetemplate_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinetemplate"
)

func TestCapacityIsReported(t *testing.T) {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
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
	if template = reconcile(); len(template.Status.Capacity) != 0 {
		t.Errorf("capacity %v without hosts", template.Status.Capacity)
	}
}
