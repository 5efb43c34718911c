package inventory

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs/blockdevice"
	"github.com/prometheus/procfs/sysfs"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// disks are block devices with a device behind them: no partitions, loop devices, volumes
// of LVM and RAID, and nothing that is meant to be pulled out.
func disks(root hostfs.Root) []infrav1.HostDisk {
	fs, err := blockdevice.NewFS(root.Path("/proc"), root.Path("/sys"))
	if err != nil {
		return nil
	}
	names, err := fs.SysBlockDevices()
	if err != nil {
		return nil
	}
	ids := diskIDs(root)
	var found []infrav1.HostDisk
	for _, name := range names {
		dir := root.Path("/sys/block/" + name)
		size, err := fs.SysBlockDeviceSize(name)
		if err != nil || size == 0 || size > maxBytes || !exists(dir+"/device") || attribute(dir, "removable") == "1" || attribute(dir, "hidden") == "1" {
			continue
		}
		disk := infrav1.HostDisk{Name: text(name, maxName), ID: text(ids[name], maxID), Size: resource.NewQuantity(int64(size), resource.BinarySI)}
		if rotational := attribute(dir, "queue/rotational"); rotational == "0" || rotational == "1" {
			disk.Rotational = ptr.To(rotational == "1")
		}
		found = append(found, disk)
	}
	slices.SortFunc(found, func(a, b infrav1.HostDisk) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// diskIDs are the names in /dev/disk/by-id of whole disks, by the kernel's name; of several
// the one that people can read, which has model and serial number.
func diskIDs(root hostfs.Root) map[string]string {
	const dir = "/dev/disk/by-id"
	ids := map[string]string{}
	// sorted by name
	entries, _ := os.ReadDir(root.Path(dir))
	for _, unreadable := range []bool{false, true} {
		for _, entry := range entries {
			target, err := os.Readlink(root.Path(dir + "/" + entry.Name()))
			if disk := filepath.Base(target); err == nil && ids[disk] == "" && isNumber(entry.Name()) == unreadable {
				ids[disk] = entry.Name()
			}
		}
	}
	return ids
}

// isNumber says whether a name in by-id is a number of the bus alone.
func isNumber(id string) bool {
	return slices.ContainsFunc([]string{"wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-0", "scsi-1", "scsi-2", "scsi-3"},
		func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

// networkInterfaces are those with a device behind them, but the virtual functions of one.
func networkInterfaces(root hostfs.Root) []infrav1.HostNetworkInterface {
	fs, err := sysfs.NewFS(root.Path("/sys"))
	if err != nil {
		return nil
	}
	names, err := fs.NetClassDevices()
	if err != nil {
		return nil
	}
	var found []infrav1.HostNetworkInterface
	for _, name := range names {
		device := root.Path("/sys/class/net/" + name + "/device")
		if !exists(device) || exists(device+"/physfn") {
			continue
		}
		link := infrav1.HostNetworkInterface{Name: text(name, maxName)}
		if driver, err := os.Readlink(device + "/driver"); err == nil {
			link.Driver = text(filepath.Base(driver), maxName)
		}
		if told, err := fs.NetClassByIface(name); err == nil {
			link.MACAddress = text(told.Address, maxName)
			// -1 is no link.
			link.SpeedMbps = int32(min(max(ptr.Deref(told.Speed, 0), 0), maxSpeed))
		}
		found = append(found, link)
	}
	slices.SortFunc(found, func(a, b infrav1.HostNetworkInterface) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// accelerators begin the PCI classes of what computes or shows pictures: display
// controllers, coprocessors, processing accelerators.
var accelerators = []string{"0x03", "0x0b40", "0x12"}

// pciDevices reads itself what procfs reads, too: that gives nothing of any device when one
// of them has a file that it does not expect.
func pciDevices(root hostfs.Root) []infrav1.HostPCIDevice {
	const dir = "/sys/bus/pci/devices"
	// sorted by address
	entries, _ := os.ReadDir(root.Path(dir))
	var found []infrav1.HostPCIDevice
	for _, entry := range entries {
		device := root.Path(dir + "/" + entry.Name())
		class := attribute(device, "class")
		if !slices.ContainsFunc(accelerators, func(prefix string) bool { return strings.HasPrefix(class, prefix) }) {
			continue
		}
		d := infrav1.HostPCIDevice{
			Address: text(entry.Name(), maxAddress), Class: digits(class),
			VendorID: digits(attribute(device, "vendor")), ProductID: digits(attribute(device, "device")),
		}
		if d.Class != "" && d.VendorID != "" && d.ProductID != "" {
			found = append(found, d)
		}
	}
	return found
}

// attribute is the content of a file of sysfs; empty when it cannot be read.
func attribute(dir, name string) string {
	data, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(data))
}
