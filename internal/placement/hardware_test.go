package placement_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

const unreported = "agent has not reported its inventory yet"

// A machine that asks for hardware gets a host whose agent reported it: not one that is
// labelled so, nor one of which nothing is known.
func TestPlacementByHardware(t *testing.T) {
	gpu := []infrav1.HostPCIDevice{{Class: "0302", VendorID: "10de"}}
	arm := infrav1.Placement{HostSelector: selector(map[string]string{infrav1.ArchitectureLabel: "arm64"})}
	noGPU := infrav1.Placement{HostSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: infrav1.GPULabelPrefix + "nvidia", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}}
	silent := func(h *infrav1.Host) { h.Status.Inventory, h.Status.Capacity = infrav1.HostInventory{}, nil }
	for name, tc := range map[string]struct {
		placement infrav1.Placement
		host      func(*infrav1.Host)
		want      string
	}{
		"another architecture":        {arm, func(*infrav1.Host) {}, "labels do not match spec.hostSelector"},
		"its architecture":            {arm, func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" }, ""},
		"labelled, and another":       {arm, func(h *infrav1.Host) { h.Labels[infrav1.ArchitectureLabel] = "arm64" }, "labels do not match spec.hostSelector"},
		"a GPU without its label":     {noGPU, func(h *infrav1.Host) { h.Status.Inventory.Hardware.PCIDevices = gpu }, "labels do not match spec.hostSelector"},
		"no GPU":                      {noGPU, func(*infrav1.Host) {}, ""},
		"nothing known":               {infrav1.Placement{}, silent, unreported},
		"nothing known, asked for":    {arm, silent, unreported},
		"nothing known, labelled":     {arm, func(h *infrav1.Host) { silent(h); h.Labels[infrav1.ArchitectureLabel] = "arm64" }, unreported},
		"nothing known, another disk": {infrav1.Placement{HostSelector: selector(map[string]string{"disk": "hdd"})}, silent, "labels do not match spec.hostSelector"},
		"no capacity":                 {infrav1.Placement{}, func(h *infrav1.Host) { h.Status.Capacity = nil }, unreported},
		"no capacity, but architecture": {arm, func(h *infrav1.Host) {
			h.Status.Inventory.Architecture, h.Status.Capacity = "arm64", corev1.ResourceList{}
		}, unreported},
	} {
		t.Run(name, func(t *testing.T) {
			requirements, err := placement.Parse(placement.Request{Placement: tc.placement})
			if err != nil {
				t.Fatal(err)
			}
			h := aHost("a", tc.host)
			if got := placement.Of().Judge(requirements, h).Reason; got != tc.want {
				t.Errorf("rejected because %q, want %q", got, tc.want)
			}
			if tc.want == unreported && !strings.Contains(placement.Of(h).Rank(requirements).Explain(), "1 "+unreported+" (a)") {
				t.Error("the explanation does not say so")
			}
		})
	}
}

// A machine that asks for a size gets a host whose agent reported as much.
func TestPlacementByCapacity(t *testing.T) {
	has := func(cpu, memory string) func(*infrav1.Host) {
		return func(h *infrav1.Host) {
			h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	asked := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	for name, tc := range map[string]struct {
		least corev1.ResourceList
		host  func(*infrav1.Host)
		want  string
	}{
		"as much":               {asked("cpu", "8"), has("8", "16Gi"), ""},
		"in other units":        {asked("memory", "16384Mi"), has("8", "16Gi"), ""},
		"less":                  {asked("memory", "16Gi"), has("8", "16383Mi"), "less memory than the 16Gi of spec.minCapacity"},
		"the first by name":     {corev1.ResourceList{"memory": resource.MustParse("1Ti"), "cpu": resource.MustParse("100")}, has("8", "16Gi"), "less cpu than the 100 of spec.minCapacity"},
		"not told of":           {asked("ephemeral-storage", "1Gi"), has("8", "16Gi"), "less ephemeral-storage than the 1Gi of spec.minCapacity"},
		"nothing known":         {asked("cpu", "8"), func(h *infrav1.Host) { h.Status.Capacity = nil }, unreported},
		"less, and claimed":     {asked("cpu", "8"), func(h *infrav1.Host) { has("4", "16Gi")(h); h.Spec.Claim = &infrav1.HostClaim{} }, "less cpu than the 8 of spec.minCapacity"},
		"any, and another size": {nil, has("1", "1Gi"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			requirements, err := placement.Parse(placement.Request{Placement: infrav1.Placement{MinCapacity: tc.least}})
			if err != nil {
				t.Fatal(err)
			}
			h := aHost("a", tc.host)
			if got := placement.Of().Judge(requirements, h).Reason; got != tc.want {
				t.Errorf("rejected because %q, want %q", got, tc.want)
			}
			if suits := requirements.Matches(h); suits != !strings.HasPrefix(tc.want, "less") {
				t.Errorf("suits: %v", suits)
			}
		})
	}
}

// Preferences see the hardware, too.
func TestPreferredHardware(t *testing.T) {
	requirements, err := placement.Parse(placement.Request{Placement: infrav1.Placement{Preferred: []infrav1.PreferredHosts{
		{Weight: 1, HostSelector: selector(map[string]string{infrav1.ArchitectureLabel: "arm64"})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	result := placement.Of(aHost("a"), aHost("b", func(h *infrav1.Host) { h.Status.Inventory.Architecture = "arm64" })).Rank(requirements)
	if len(result.Ranked) != 2 || result.Ranked[0].Host.Name != "b" {
		t.Errorf("ranked %+v", result.Ranked)
	}
}
