package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

func TestCapacity(t *testing.T) {
	sized := func(cpu, memory string, change ...func(*infrav1.Host)) infrav1.Host {
		h := aHost("a", change...)
		h.Status.Inventory.Architecture = "amd64"
		h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return *h
	}
	arm := sized("8", "8Gi")
	arm.Status.Inventory.Architecture = "arm64"
	for name, tc := range map[string]struct {
		hosts       []infrav1.Host
		cpu, memory string
		info        infrav1.NodeInfo
	}{
		"no host":        {nil, "0", "0", infrav1.NodeInfo{}},
		"least of each":  {[]infrav1.Host{sized("4", "16Gi"), sized("8", "8Gi")}, "4", "8Gi", infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}},
		"mixed":          {[]infrav1.Host{sized("4", "16Gi"), arm}, "4", "8Gi", infrav1.NodeInfo{OperatingSystem: "linux"}},
		"claimed counts": {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Spec.Claim = &infrav1.HostClaim{} })}, "4", "1Gi", infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}},
		"unschedulable":  {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) })}, "0", "0", infrav1.NodeInfo{}},
		"not approved":   {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalPending })}, "0", "0", infrav1.NodeInfo{}},
		"evacuated":      {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) })}, "0", "0", infrav1.NodeInfo{}},
		"reassigned":     {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Spec.AssignedNamespace = "other" })}, "0", "0", infrav1.NodeInfo{}},
		"deleting":       {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.DeletionTimestamp = ptr.To(metav1.Now()) })}, "0", "0", infrav1.NodeInfo{}},
		"other version":  {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Status.Inventory.KubernetesVersions = nil })}, "0", "0", infrav1.NodeInfo{}},
		"other disk":     {[]infrav1.Host{sized("4", "1Gi", func(h *infrav1.Host) { h.Labels["disk"] = "hdd" })}, "0", "0", infrav1.NodeInfo{}},
	} {
		t.Run(name, func(t *testing.T) {
			requirements, err := placement.Parse(placement.Request{Version: version, Placement: infrav1.Placement{HostSelector: selector(map[string]string{"disk": "ssd"})}})
			if err != nil {
				t.Fatal(err)
			}
			capacity, info := requirements.Capacity(tc.hosts)
			if capacity.Cpu().String() != tc.cpu || capacity.Memory().String() != tc.memory || info != tc.info {
				t.Errorf("capacity %v, info %+v", capacity, info)
			}
		})
	}
}
