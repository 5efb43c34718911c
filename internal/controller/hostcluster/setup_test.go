package hostcluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestHostChanges holds which changes of a Host reconcile the HostClusters: those that say whether
// a control plane can use the host, and none of those that come with each report.
func TestHostChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.Host)
		want   bool
	}{
		"nothing":         {func(*infrav1.Host) {}, false},
		"boot ID":         {func(h *infrav1.Host) { h.Status.BootID = "another" }, false},
		"equal capacity":  {func(h *infrav1.Host) { h.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("4000m") }, false},
		"capacity":        {func(h *infrav1.Host) { h.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("8") }, true},
		"first report":    {func(h *infrav1.Host) { h.Status.Capacity = nil }, true},
		"architecture":    {func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" }, true},
		"labels":          {func(h *infrav1.Host) { h.Labels = map[string]string{"role": "plane"} }, true},
		"domain":          {func(h *infrav1.Host) { h.Spec.FailureDomain = "rack-2" }, true},
		"unschedulable":   {func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }, true},
		"leaving":         {func(h *infrav1.Host) { h.Spec.AssignedNamespace = "other" }, true},
		"not approved":    {func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied }, true},
		"being deleted":   {func(h *infrav1.Host) { h.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) }, true},
		"another version": {func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = []string{"v1.36.3"} }, true},
	} {
		before := &infrav1.Host{}
		before.Status.Inventory.Architecture = "amd64"
		before.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		after := before.DeepCopy()
		c.change(after)
		if got := hostChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: passes %t, want %t", name, got, c.want)
		}
	}
}

// The event by which another system takes a HostCluster over passes while it has the finalizer.
func TestManagedHere(t *testing.T) {
	managed := map[string]string{clusterv1.ManagedByAnnotation: "another system"}
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"ours":                   {metav1.ObjectMeta{}, true},
		"another system's":       {metav1.ObjectMeta{Annotations: managed}, false},
		"taken over just now":    {metav1.ObjectMeta{Annotations: managed, Finalizers: []string{infrav1.HostClusterFinalizer}}, true},
		"with another finalizer": {metav1.ObjectMeta{Annotations: managed, Finalizers: []string{"example.com/other"}}, false},
	} {
		if got := managedHere(&infrav1.HostCluster{ObjectMeta: c.meta}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
