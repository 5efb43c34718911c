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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// When the capacity of a template is computed, of which hosts, and when it is written.
func TestWhichCapacityIsReported(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	busy := errors.New("the API server is busy")
	amd64 := infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}
	cpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	for name, c := range map[string]struct {
		change  func(*infrav1.HostMachineTemplate)
		cluster bool
		failure error
		// writes is how many the reconcile makes, want the processors afterwards.
		writes int
		want   string
	}{
		"no Cluster":             {writes: 1, want: "2"},
		"a Cluster":              {change: func(o *infrav1.HostMachineTemplate) { o.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"} }, cluster: true, writes: 1, want: "2"},
		"the Cluster is gone":    {change: func(o *infrav1.HostMachineTemplate) { o.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"} }, writes: 1, want: "2"},
		"the Cluster is unknown": {change: func(o *infrav1.HostMachineTemplate) { o.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"} }, failure: busy, want: "0"},
		"paused": {change: func(o *infrav1.HostMachineTemplate) {
			o.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, want: "0"},
		"being deleted": {change: func(o *infrav1.HostMachineTemplate) {
			o.DeletionTimestamp, o.Finalizers = ptr.To(metav1.Now()), []string{"a/b"}
		}, want: "0"},
		"of large hosts":  {change: func(o *infrav1.HostMachineTemplate) { o.Spec.Template.Spec.MinCapacity = cpus("4") }, writes: 1, want: "8"},
		"as it was":       {change: func(o *infrav1.HostMachineTemplate) { o.Status.Capacity, o.Status.NodeInfo = cpus("2"), amd64 }, want: "2"},
		"of another node": {change: func(o *infrav1.HostMachineTemplate) { o.Status.Capacity = cpus("2") }, writes: 1, want: "2"},
		"of another size": {change: func(o *infrav1.HostMachineTemplate) { o.Status.Capacity, o.Status.NodeInfo = cpus("3"), amd64 }, writes: 1, want: "2"},
	} {
		template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "workers"}}
		if c.change != nil {
			c.change(template)
		}
		builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(template).WithObjects(template)
		for host, n := range map[string]string{"small": "2", "large": "8"} {
			h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: host}}
			h.Status.Capacity, h.Status.Inventory.Architecture = cpus(n), "amd64"
			builder = builder.WithObjects(h)
		}
		if c.cluster {
			builder = builder.WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
		}
		writes := 0
		api := builder.WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, cluster := o.(*clusterv1.Cluster); cluster && c.failure != nil {
					return c.failure
				}
				return api.Get(ctx, key, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, api client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				writes++
				return api.SubResource(sub).Patch(ctx, o, patch, opts...)
			},
		}).Build()
		key := client.ObjectKeyFromObject(template)
		_, err := (&hostmachinetemplate.Reconciler{Client: api}).Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if !errors.Is(err, c.failure) {
			t.Errorf("%s: %v", name, err)
		}
		if err := api.Get(t.Context(), key, template); err != nil {
			t.Fatal(err)
		}
		if got := template.Status.Capacity.Cpu().String(); writes != c.writes || got != c.want {
			t.Errorf("%s: %d writes and %s processors, want %d and %s", name, writes, got, c.writes, c.want)
		}
	}
}
