package host

import (
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// InventoryReported says whether the agent has reported its inventory. Status does not come
// with a move: until the agent has reported again, nobody knows whether a machine fits.
func InventoryReported(h *infrav1.Host) bool {
	return h.Status.Inventory.Architecture != "" && len(h.Status.Capacity) > 0
}

// IsHardwareLabel says whether only the manager writes the label.
func IsHardwareLabel(key string) bool { return strings.HasPrefix(key, infrav1.HardwareLabelPrefix) }

// HardwareLabels are the labels that a Host has by what its agent reported. Keys are of a
// set that no report can add to, but for CPU features, which are added behind a prefix.
func HardwareLabels(found infrav1.HostInventory) map[string]string {
	hardware := found.Hardware
	wanted := map[string]string{}
	for key, fact := range map[string]string{
		infrav1.ArchitectureLabel: found.Architecture, infrav1.BootModeLabel: string(hardware.BootMode),
		infrav1.CPUVendorLabel: hardware.CPU.Vendor, infrav1.CPUModelLabel: hardware.CPU.Model,
		infrav1.SystemVendorLabel: hardware.System.Vendor, infrav1.SystemProductLabel: hardware.System.Product,
	} {
		if value := labelValue(fact); value != "" {
			wanted[key] = value
		}
	}
	for _, feature := range hardware.CPU.Features {
		if isFeature(feature) {
			wanted[infrav1.CPUFeatureLabelPrefix+feature] = "true"
		}
	}
	for vendor, count := range gpus(hardware.PCIDevices) {
		wanted[infrav1.GPULabelPrefix+vendor] = strconv.Itoa(count)
	}
	return wanted
}

// gpuVendors are those whose display controllers compute, by their PCI ID.
var gpuVendors = map[string]string{"1002": "amd", "8086": "intel", "10de": "nvidia"}

// displayClass begins the PCI classes of display controllers: 0300 is VGA, 0302 is 3D.
const displayClass = "03"

func gpus(devices []infrav1.HostPCIDevice) map[string]int {
	counts := map[string]int{}
	for _, d := range devices {
		if vendor := gpuVendors[d.VendorID]; vendor != "" && strings.HasPrefix(d.Class, displayClass) {
			counts[vendor]++
		}
	}
	return counts
}

// maxFeature is how long the name of a CPU feature may be: its label fits then.
const maxFeature = 32

// isFeature says whether a CPU feature can be part of the key of a label.
func isFeature(name string) bool {
	return name != "" && len(name) <= maxFeature && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" &&
		!strings.HasPrefix(name, "_") && !strings.HasSuffix(name, "_")
}

// maxLabelValue is the limit of Kubernetes.
const maxLabelValue = 63

// marks are what vendors put into names and nobody selects by.
var marks = strings.NewReplacer("(R)", " ", "(r)", " ", "(TM)", " ", "(tm)", " ")

// labelValue is a fact as the value of a label; empty when nothing of it can be.
func labelValue(fact string) string {
	words := strings.FieldsFunc(marks.Replace(fact), func(r rune) bool { return !isLabelRune(r) })
	value := strings.Join(words, "-")
	value = strings.Trim(value, "-_.")
	return strings.TrimRight(value[:min(len(value), maxLabelValue)], "-_.")
}

func isLabelRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// LabelHardware brings the labels of a Host by its hardware up to date, in memory, and says
// whether one changed. Those of a host that has not reported yet stay: they came with it.
func LabelHardware(h *infrav1.Host) bool {
	if !InventoryReported(h) {
		return false
	}
	wanted := HardwareLabels(h.Status.Inventory)
	changed := false
	maps.DeleteFunc(h.Labels, func(key, _ string) bool {
		_, holds := wanted[key]
		gone := IsHardwareLabel(key) && !holds
		changed = changed || gone
		return gone
	})
	for key, value := range wanted {
		if is, found := h.Labels[key]; found && is == value {
			continue
		}
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		h.Labels[key] = value
		changed = true
	}
	return changed
}

// Labels are what selectors see of a host: its labels, but those of its hardware as the
// agent reported it, whether or not they are written yet. Otherwise a selector for hosts
// without a GPU would claim a host between its report and its labels.
func Labels(h *infrav1.Host) labels.Labels {
	if !InventoryReported(h) {
		return labels.Set(h.Labels)
	}
	return &reportedLabels{host: h}
}

// reportedLabels computes the labels of the hardware at their first use.
type reportedLabels struct {
	host     *infrav1.Host
	hardware map[string]string
}

// Has implements labels.Labels.
func (l *reportedLabels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get implements labels.Labels.
func (l *reportedLabels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Lookup implements labels.Labels.
func (l *reportedLabels) Lookup(key string) (string, bool) {
	if !IsHardwareLabel(key) {
		value, found := l.host.Labels[key]
		return value, found
	}
	if l.hardware == nil {
		l.hardware = HardwareLabels(l.host.Status.Inventory)
	}
	value, found := l.hardware[key]
	return value, found
}
