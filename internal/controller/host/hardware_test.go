package host_test

import (
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// hardwareLabels are those of a Host that the manager makes.
func hardwareLabels(h *infrav1.Host) map[string]string {
	labels := maps.Clone(h.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !host.IsHardwareLabel(key) })
	return labels
}

// Labels follow what the agent reports, keep to their prefix, and outlast a lost status.
func TestHardwareLabelsFollowTheReport(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1", func(h *infrav1.Host) { h.Labels = map[string]string{"rack": "1", "kubernetes.io/arch": "mine"} })
	follow := func(when string, hardware infrav1.HostHardware, want map[string]string) {
		t.Helper()
		agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.Hardware = hardware })
		h, _ := w.reconcile(agent)
		want[infrav1.ArchitectureLabel] = "amd64"
		if got := hardwareLabels(h); !maps.Equal(got, want) || h.Labels["rack"] != "1" || h.Labels["kubernetes.io/arch"] != "mine" {
			t.Errorf("%s the labels are %v, want %v", when, h.Labels, want)
		}
		if !conditions.IsTrue(h, infrav1.AvailableCondition) {
			t.Errorf("%s: %+v", when, conditions.Get(h, infrav1.AvailableCondition))
		}
	}
	follow("with a GPU", infrav1.HostHardware{
		System:     infrav1.HostSystem{Vendor: "Dell Inc."},
		PCIDevices: []infrav1.HostPCIDevice{{Address: "0000:3b:00.0", Class: "0302", VendorID: "10de", ProductID: "20b5"}},
	}, map[string]string{infrav1.SystemVendorLabel: "Dell-Inc", infrav1.GPULabelPrefix + "nvidia": "1"})
	follow("without it", infrav1.HostHardware{System: infrav1.HostSystem{Vendor: "HPE"}}, map[string]string{infrav1.SystemVendorLabel: "HPE"})
	before, _ := w.reconcile(agent)
	if after, _ := w.reconcile(agent); after.ResourceVersion != before.ResourceVersion {
		t.Error("it writes labels that are there")
	}

	// As after a move: labels come with the Host, the report does not.
	h := agent.Host(t)
	h.Status = infrav1.HostStatus{}
	if err := env.Client.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if h, _ = w.reconcile(agent); h.Labels[infrav1.SystemVendorLabel] != "HPE" || conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("without a report the labels are %v, %+v", h.Labels, conditions.Get(h, infrav1.AvailableCondition))
	}
}

// A host that was proved clean, by its agent or by hand, is not claimable before its facts
// are in, and nothing happens to it meanwhile.
func TestHostWithoutInventoryIsNotAvailable(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	found := agent.Status
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory, s.Capacity = infrav1.HostInventory{}, nil })
	h, _ := w.reconcile(agent)
	if why := conditions.Get(h, infrav1.AvailableCondition); why == nil || why.Reason != infrav1.HostInventoryNotReportedReason || h.Status.Phase != infrav1.HostPhaseEnrolling {
		t.Errorf("phase %s, %+v", h.Status.Phase, why)
	}
	if h.Spec.Desired != nil || h.Spec.Claim != nil || len(hardwareLabels(h)) != 0 {
		t.Errorf("%+v, labels %v", h.Spec, h.Labels)
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory, s.Capacity = found.Inventory, found.Capacity })
	if h, _ = w.reconcile(agent); !conditions.IsTrue(h, infrav1.AvailableCondition) || h.Labels[infrav1.ArchitectureLabel] != "amd64" {
		t.Errorf("%+v, labels %v", conditions.Get(h, infrav1.AvailableCondition), h.Labels)
	}
}

// An agent labels nothing: neither its Host, nor by way of its status.
func TestAgentLabelsNothing(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	w.reconcile(agent)
	itself := w.agentOf("host-1", testenv.HostID(w.namespace, "host-1"))
	h := &infrav1.Host{}
	poll.Until(t, "the agent has its rights", func() error { return itself.Get(t.Context(), agent.Key, h) })
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"rack":"mine","`+infrav1.ArchitectureLabel+`":"arm64"}},"status":{"residue":["mine"]}}`))
	if err := itself.Patch(t.Context(), h.DeepCopy(), patch); !apierrors.IsForbidden(err) {
		t.Errorf("it labels its Host: %v", err)
	}
	if err := itself.Status().Patch(t.Context(), h.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	if h = agent.Host(t); len(h.Status.Residue) != 1 || h.Labels["rack"] != "" || h.Labels[infrav1.ArchitectureLabel] != "amd64" {
		t.Errorf("by its status it labels its Host: %v, %+v", h.Labels, h.Status)
	}
	// What it reports becomes labels of one prefix, whatever it is.
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.Inventory.Hardware.System = infrav1.HostSystem{Vendor: "rack=mine,\n../" + strings.Repeat("é", 100), Product: "---"}
		s.Inventory.Hardware.CPU.Features = []string{"_", "rack"}
	})
	h, _ = w.reconcile(agent)
	for key := range h.Labels {
		if !host.IsHardwareLabel(key) {
			t.Errorf("a report made the label %s", key)
		}
	}
}
