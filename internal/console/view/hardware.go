package view

import (
	"fmt"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// hardwareOf tells a line of each part of a machine, and of its disks, network interfaces
// and PCI devices one each.
func hardwareOf(h infrav1.HostHardware) []Fact {
	cpu := h.CPU.Model
	if cpu == "" {
		cpu = h.CPU.Vendor
	}
	facts := []Fact{
		{"Machine", words(h.System.Vendor, h.System.Product)},
		{"Serial number", h.System.SerialNumber},
		{"Boot mode", string(h.BootMode)},
		{"CPU", words(cpu, counted(h.CPU.Cores, "cores"), counted(h.CPU.Threads, "threads"))},
		{"CPU features", strings.Join(h.CPU.Features, ", ")},
	}
	for _, d := range h.Disks {
		size, kind := "", ""
		if d.Size != nil {
			size = d.Size.String()
		}
		if d.Rotational != nil && *d.Rotational {
			kind = "rotational"
		}
		facts = append(facts, Fact{"Disk " + d.Name, words(size, kind, d.ID)})
	}
	for _, n := range h.NetworkInterfaces {
		facts = append(facts, Fact{"Network interface " + n.Name, words(n.MACAddress, n.Driver, counted(n.SpeedMbps, "Mbit/s"))})
	}
	for _, d := range h.PCIDevices {
		facts = append(facts, Fact{"PCI device " + d.Address, fmt.Sprintf("%s:%s, class %s", d.VendorID, d.ProductID, d.Class)})
	}
	return facts
}

// words joins what is there.
func words(all ...string) string { return strings.Join(strings.Fields(strings.Join(all, " ")), " ") }

func counted(n int32, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("(%d %s)", n, what)
}
