package v1beta2

import "k8s.io/apimachinery/pkg/api/resource"

// HostHardware is what the agent found of the machine itself. What it could not read is
// missing: a sandbox or a virtual machine has less to tell than a server.
type HostHardware struct {
	// bootMode is the firmware by which the machine started.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// cpu is the processor, or the first one of several.
	// +optional
	CPU HostCPU `json:"cpu,omitempty,omitzero"`

	// system is who made the machine, as its firmware tells (DMI).
	// +optional
	System HostSystem `json:"system,omitempty,omitzero"`

	// disks of the machine by name, at most 64; no partitions, loop devices and volumes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disks []HostDisk `json:"disks,omitempty"`

	// networkInterfaces of the machine by name, at most 32; none that software made.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	NetworkInterfaces []HostNetworkInterface `json:"networkInterfaces,omitempty"`

	// pciDevices are the display controllers, coprocessors and accelerators, by address,
	// at most 32: GPUs are among them, and what a server shows its console with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PCIDevices []HostPCIDevice `json:"pciDevices,omitempty"`
}

// BootMode is a kind of firmware.
// +kubebuilder:validation:Enum=UEFI;BIOS
type BootMode string

const (
	// BootModeUEFI is a machine that UEFI started.
	BootModeUEFI BootMode = "UEFI"
	// BootModeBIOS is a machine of x86 that a BIOS started, or UEFI in the manner of one.
	BootModeBIOS BootMode = "BIOS"
)

// HostCPU is a processor.
type HostCPU struct {
	// vendor as the kernel names it, for example GenuineIntel or AuthenticAMD.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Vendor string `json:"vendor,omitempty"`

	// model of it, for example "AMD EPYC 9354 32-Core Processor".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`

	// cores of all processors together; unset where the kernel does not tell.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Cores int32 `json:"cores,omitempty"`

	// threads that the kernel schedules on, of all processors together.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threads int32 `json:"threads,omitempty"`

	// features are those that one chooses machines by, of all that the processor has, as
	// the kernel names them, sorted: for example avx2, avx512f, vmx, sve.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9_]+$`
	Features []string `json:"features,omitempty"`
}

// HostSystem is who made a machine.
type HostSystem struct {
	// vendor of the machine, for example "Dell Inc.".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`

	// product that it is, for example "PowerEdge R650".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Product string `json:"product,omitempty"`

	// serialNumber of the machine.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
}

// HostDisk is a disk of a machine.
type HostDisk struct {
	// name that the kernel gave it at this boot, for example nvme0n1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// id is its name in /dev/disk/by-id, which stays the same.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// size of the disk.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// rotational is true for disks that turn.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// HostNetworkInterface is a network interface of a machine.
type HostNetworkInterface struct {
	// name of the interface, for example eno1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// macAddress of it, for example 52:54:00:12:34:56.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MACAddress string `json:"macAddress,omitempty"`

	// driver of the kernel, for example mlx5_core.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`

	// speedMbps is the speed of the link in megabits per second; unset while it is down,
	// and where there is none to speak of, as in virtual machines.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMbps int32 `json:"speedMbps,omitempty"`
}

// HostPCIDevice is a device on the PCI bus of a machine, by the numbers of the PCI ID
// database, in hexadecimal digits.
type HostPCIDevice struct {
	// address on the bus, for example 0000:3b:00.0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Address string `json:"address,omitempty"`

	// class with subclass, for example 0300 for a VGA controller, 0302 for a 3D controller.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4}$`
	Class string `json:"class,omitempty"`

	// vendorID is the vendor, for example 10de for NVIDIA.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4}$`
	VendorID string `json:"vendorID,omitempty"`

	// productID is the product of the vendor.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{4}$`
	ProductID string `json:"productID,omitempty"`
}
