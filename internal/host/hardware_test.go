package host_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// server is a host whose agent reported all that there is.
func server() *infrav1.Host {
	h := reported(&infrav1.Host{})
	h.Status.Inventory.Hardware = infrav1.HostHardware{
		BootMode: infrav1.BootModeUEFI,
		CPU:      infrav1.HostCPU{Vendor: "GenuineIntel", Model: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", Features: []string{"avx512f", "sha_ni"}},
		System:   infrav1.HostSystem{Vendor: "Dell Inc.", Product: "PowerEdge R650", SerialNumber: "ABC1234"},
		PCIDevices: []infrav1.HostPCIDevice{
			{Address: "0000:03:00.0", Class: "0300", VendorID: "102b", ProductID: "0536"},
			{Address: "0000:3b:00.0", Class: "0302", VendorID: "10de", ProductID: "20b5"},
			{Address: "0000:5e:00.0", Class: "0302", VendorID: "10de", ProductID: "20b5"},
			{Address: "0000:6e:00.0", Class: "1200", VendorID: "8086", ProductID: "0b25"},
		},
	}
	return h
}

const prefix = infrav1.HardwareLabelPrefix

func TestHardwareLabels(t *testing.T) {
	want := map[string]string{
		prefix + "architecture": "amd64", prefix + "boot-mode": "UEFI", prefix + "cpu-vendor": "GenuineIntel",
		prefix + "cpu-model": "Intel-Xeon-Gold-6338-CPU-2.00GHz", prefix + "system-vendor": "Dell-Inc", prefix + "system-product": "PowerEdge-R650",
		prefix + "cpu-feature-avx512f": "true", prefix + "cpu-feature-sha_ni": "true", prefix + "gpu-nvidia": "2",
	}
	if got := host.HardwareLabels(server().Status.Inventory); !maps.Equal(got, want) {
		t.Errorf("labels are %v\nwant %v", got, want)
	}
	if got := host.HardwareLabels(infrav1.HostInventory{}); len(got) != 0 {
		t.Errorf("nothing is known, labels are %v", got)
	}
}

// Labels follow the facts, touch no key of an operator, and stay while nothing is reported.
func TestLabelHardware(t *testing.T) {
	h := server()
	h.Labels = map[string]string{"rack": "1", "kubernetes.io/arch": "mine", prefix + "gpu-amd": "8", prefix + "cpu-vendor": "AuthenticAMD"}
	if !host.LabelHardware(h) || h.Labels["rack"] != "1" || h.Labels["kubernetes.io/arch"] != "mine" {
		t.Errorf("labels are %v", h.Labels)
	}
	if _, found := h.Labels[prefix+"gpu-amd"]; found || h.Labels[prefix+"cpu-vendor"] != "GenuineIntel" {
		t.Errorf("labels of before are there: %v", h.Labels)
	}
	if host.LabelHardware(h) {
		t.Error("it changes them again")
	}
	labelled := maps.Clone(h.Labels)
	h.Status = infrav1.HostStatus{}
	if host.LabelHardware(h) || !maps.Equal(h.Labels, labelled) {
		t.Errorf("a Host that was moved lost labels: %v", h.Labels)
	}
}

// Selectors go by what was reported, not by when somebody gets to write labels.
func TestLabels(t *testing.T) {
	noGPU, err := labels.Parse("!" + prefix + "gpu-nvidia,rack=1")
	if err != nil {
		t.Fatal(err)
	}
	h := server()
	h.Labels = map[string]string{"rack": "1", prefix + "gpu-amd": "1"}
	if noGPU.Matches(host.Labels(h)) || host.Labels(h).Has(prefix+"gpu-amd") || host.Labels(h).Get(prefix+"architecture") != "amd64" || host.Labels(h).Get("rack") != "1" {
		t.Error("selectors see the labels, not the report")
	}
	h.Status.Inventory.Hardware.PCIDevices = nil
	if !noGPU.Matches(host.Labels(h)) {
		t.Error("a host without a GPU does not match")
	}
	h.Status = infrav1.HostStatus{}
	if !host.Labels(h).Has(prefix + "gpu-amd") {
		t.Error("without a report the labels that came with the Host do not count")
	}
}

// FuzzHardwareLabels holds that whatever an agent reports, the labels are ones that the API
// server takes, of keys that are the manager's.
func FuzzHardwareLabels(f *testing.F) {
	f.Add("amd64", "GenuineIntel", "Intel(R) Core(TM)", "avx2", "10de")
	f.Add("", strings.Repeat("-", 200), "\x00\xff/\n", "../avx", "")
	f.Add("a_", "_a", strings.Repeat("x", 62)+"--y", "_", "1002")
	f.Fuzz(func(t *testing.T, architecture, vendor, model, feature, pci string) {
		h := server()
		h.Labels = map[string]string{"rack": "1"}
		h.Status.Inventory.Architecture = architecture
		hardware := &h.Status.Inventory.Hardware
		hardware.BootMode, hardware.CPU = infrav1.BootMode(vendor), infrav1.HostCPU{Vendor: vendor, Model: model, Features: []string{feature}}
		hardware.System = infrav1.HostSystem{Vendor: model, Product: vendor}
		hardware.PCIDevices = []infrav1.HostPCIDevice{{Class: "03" + pci, VendorID: pci}}
		host.LabelHardware(h)
		for key, value := range h.Labels {
			if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
				t.Errorf("label %q=%q: %v", key, value, problems)
			}
			if key != "rack" && !host.IsHardwareLabel(key) {
				t.Errorf("a report made the label %q", key)
			}
		}
		if h.Labels["rack"] != "1" {
			t.Errorf("a report changed the labels of an operator: %v", h.Labels)
		}
	})
}
