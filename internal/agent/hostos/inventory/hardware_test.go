package inventory_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
)

// machine is a root folder with files by path; what begins with "-> " is a link.
func machine(t *testing.T, files map[string]string) hostfs.Root {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	for path, content := range files {
		at := root.Path(path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, files map[string]string) infrav1.HostHardware {
	t.Helper()
	reader := &inventory.Reader{Root: machine(t, files)}
	return reader.Read()
}

// processors is /proc/cpuinfo of x86 with so many threads, two for each core.
func processors(threads int) string {
	var all strings.Builder
	for i := range threads {
		fmt.Fprintf(&all, "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz\nphysical id\t: 0\ncore id\t\t: %d\nflags\t\t: fpu avx2 vmx avx512f aes nonsense\n\n", i, i/2)
	}
	return all.String()
}

func disk(kernel, name, size, rotational string) map[string]string {
	dir := "/sys/block/" + name
	return map[string]string{
		dir + "/size": size + "\n", dir + "/queue/rotational": rotational + "\n", dir + "/removable": "0\n",
		dir + "/device/model": kernel + "\n", dir + "/dev": "8:0\n",
	}
}

func join(all ...map[string]string) map[string]string {
	files := map[string]string{}
	for _, some := range all {
		for path, content := range some {
			files[path] = content
		}
	}
	return files
}

func TestServer(t *testing.T) {
	files := join(disk("a", "nvme0n1", "7501476528", "0"), disk("b", "sda", "35156656128", "1"), map[string]string{
		"/proc/cpuinfo":                      processors(4),
		"/sys/firmware/efi/fw_platform_size": "64\n", "/sys/firmware/dmi/tables/DMI": "",
		"/sys/class/dmi/id/sys_vendor":               "Dell Inc.\n",
		"/sys/class/dmi/id/product_name":             "PowerEdge  R650\n",
		"/sys/class/dmi/id/product_serial":           "ABC1234\n",
		"/dev/disk/by-id/nvme-Dell_PM9A3_S6":         "-> ../../nvme0n1",
		"/dev/disk/by-id/nvme-Dell_PM9A3_S6-part1":   "-> ../../nvme0n1p1",
		"/dev/disk/by-id/nvme-eui.36344830":          "-> ../../nvme0n1",
		"/dev/disk/by-id/wwn-0x5000c500":             "-> ../../sda",
		"/sys/block/loop0/size":                      "8\n",
		"/sys/block/sr0/size":                        "2097151\n",
		"/sys/block/sr0/removable":                   "1\n",
		"/sys/block/sr0/device/model":                "DVD\n",
		"/sys/class/net/eno1/address":                "b0:7b:25:00:00:01\n",
		"/sys/class/net/eno1/speed":                  "25000\n",
		"/sys/class/net/eno1/device/driver":          "-> ../../../../bus/pci/drivers/mlx5_core",
		"/sys/class/net/eno2/address":                "b0:7b:25:00:00:02\n",
		"/sys/class/net/eno2/speed":                  "-1\n",
		"/sys/class/net/eno2/device/vendor":          "0x15b3\n",
		"/sys/class/net/eno1v0/device/physfn/vendor": "0x15b3\n",
		"/sys/class/net/cni0/address":                "0a:58:0a:f4:00:01\n",
		"/sys/bus/pci/devices/0000:00:00.0/class":    "0x060000\n",
		"/sys/bus/pci/devices/0000:03:00.0/class":    "0x030000\n",
		"/sys/bus/pci/devices/0000:03:00.0/vendor":   "0x102b\n",
		"/sys/bus/pci/devices/0000:03:00.0/device":   "0x0536\n",
		"/sys/bus/pci/devices/0000:3b:00.0/class":    "0x030200\n",
		"/sys/bus/pci/devices/0000:3b:00.0/vendor":   "0x10DE\n",
		"/sys/bus/pci/devices/0000:3b:00.0/device":   "0x20b5\n",
		"/sys/bus/pci/devices/0000:5e:00.0/class":    "0x030200\n",
		"/sys/bus/pci/devices/0000:5e:00.0/vendor":   "nothing\n",
	})
	want := infrav1.HostHardware{
		BootMode: infrav1.BootModeUEFI,
		System:   infrav1.HostSystem{Vendor: "Dell Inc.", Product: "PowerEdge R650", SerialNumber: "ABC1234"},
		Disks: []infrav1.HostDisk{
			{Name: "nvme0n1", ID: "nvme-Dell_PM9A3_S6", Size: resource.NewQuantity(7501476528*512, resource.BinarySI), Rotational: ptr.To(false)},
			{Name: "sda", ID: "wwn-0x5000c500", Size: resource.NewQuantity(35156656128*512, resource.BinarySI), Rotational: ptr.To(true)},
		},
		NetworkInterfaces: []infrav1.HostNetworkInterface{
			{Name: "eno1", MACAddress: "b0:7b:25:00:00:01", Driver: "mlx5_core", SpeedMbps: 25000}, {Name: "eno2", MACAddress: "b0:7b:25:00:00:02"},
		},
		PCIDevices: []infrav1.HostPCIDevice{
			{Address: "0000:03:00.0", Class: "0300", VendorID: "102b", ProductID: "0536"},
			{Address: "0000:3b:00.0", Class: "0302", VendorID: "10de", ProductID: "20b5"},
		},
	}
	got := read(t, files)
	if runtime.GOARCH == "amd64" {
		cpu := infrav1.HostCPU{Vendor: "GenuineIntel", Model: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", Cores: 2, Threads: 4, Features: []string{"aes", "avx2", "avx512f", "vmx"}}
		if !reflect.DeepEqual(got.CPU, cpu) {
			t.Errorf("the processor is %+v, want %+v", got.CPU, cpu)
		}
	}
	got.CPU = infrav1.HostCPU{}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", encode(t, got), encode(t, want))
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestVirtualMachine(t *testing.T) {
	got := read(t, join(disk("", "vda", "41943040", "1"), map[string]string{
		"/proc/cpuinfo": "", "/sys/firmware/dmi/tables/DMI": "", "/sys/class/dmi/id/sys_vendor": "QEMU\n", "/sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)\n",
		"/sys/class/dmi/id/product_serial": "Not Specified\n", "/sys/class/net/enp1s0/address": "52:54:00:12:34:56\n", "/sys/class/net/enp1s0/device/driver": "-> ../virtio_net",
	}))
	want := infrav1.HostHardware{
		BootMode: infrav1.BootModeBIOS, System: infrav1.HostSystem{Vendor: "QEMU", Product: "Standard PC (Q35 + ICH9, 2009)"},
		Disks:             []infrav1.HostDisk{{Name: "vda", Size: resource.NewQuantity(20<<30, resource.BinarySI), Rotational: ptr.To(true)}},
		NetworkInterfaces: []infrav1.HostNetworkInterface{{Name: "enp1s0", MACAddress: "52:54:00:12:34:56", Driver: "virtio_net"}},
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", encode(t, got), encode(t, want))
	}
}

// A sandbox has neither firmware nor devices, and may not even have /sys.
func TestSandbox(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":   {},
		"no device": {"/proc/cpuinfo": "", "/sys/class/net/eth0/address": "0a:00:00:00:00:01\n", "/sys/firmware/.keep": "", "/sys/block/.keep/size": "x"},
		"odd files": {"/proc/cpuinfo": "\x00\xff", "/sys/class/dmi/id": "no folder", "/sys/block": "no folder", "/sys/bus/pci/devices": "no folder", "/sys/class/net": "no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, files); !reflect.DeepEqual(got, infrav1.HostHardware{}) {
				t.Errorf("found %s", encode(t, got))
			}
		})
	}
}

// Whatever a machine says of itself, and however much of it there is, the API takes the
// report: otherwise the host would report nothing at all.
func TestReportFitsTheAPI(t *testing.T) {
	const long = 400
	babble := strings.Repeat("\xff\x00ü\n\u202e ", long)
	files := map[string]string{
		"/proc/cpuinfo":                strings.ReplaceAll(processors(300), "GenuineIntel", strings.Repeat("é", long)),
		"/sys/class/dmi/id/sys_vendor": babble, "/sys/class/dmi/id/product_name": babble, "/sys/class/dmi/id/product_serial": babble,
	}
	for i := range 300 {
		name := fmt.Sprintf("d%d%s", i, strings.Repeat("x", 100))
		files = join(files, disk(babble, name, "8", babble), map[string]string{
			"/dev/disk/by-id/" + strings.Repeat("i", 200) + name[:40]: "-> ../../" + name,
			"/sys/class/net/" + name + "/device/vendor":               "0x1\n", "/sys/class/net/" + name + "/address": babble, "/sys/class/net/" + name + "/speed": "9223372036854775807\n",
			"/sys/bus/pci/devices/" + name + "/class": "0x030200\n", "/sys/bus/pci/devices/" + name + "/vendor": "0x10de\n", "/sys/bus/pci/devices/" + name + "/device": "0xffffffff\n",
		})
	}
	got := read(t, files)
	if len(got.Disks) != 300 || len(got.NetworkInterfaces) != 300 || len(got.PCIDevices) != 300 || got.System.Vendor == "" {
		t.Errorf("%d disks, %d interfaces, %d devices, vendor %q", len(got.Disks), len(got.NetworkInterfaces), len(got.PCIDevices), got.System.Vendor)
	}
	// The report cuts lists, and counts what it leaves out.
	got.Disks, got.NetworkInterfaces, got.PCIDevices = got.Disks[:64], got.NetworkInterfaces[:32], got.PCIDevices[:32]
	var report any
	if err := json.Unmarshal([]byte(encode(t, got)), &report); err != nil {
		t.Fatal(err)
	}
	for _, problem := range validation.ValidateCustomResource(nil, report, schema(t)) {
		t.Error(problem)
	}
}

// schema validates status.inventory.hardware as the API server does.
func schema(t *testing.T) validation.SchemaValidator {
	t.Helper()
	data, err := config.FS.ReadFile("crd/bases/infrastructure.slipway.dev_hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	host := crd.Spec.Versions[len(crd.Spec.Versions)-1].Schema.OpenAPIV3Schema
	declared := host.Properties["status"].Properties["inventory"].Properties["hardware"]
	if len(declared.Properties) == 0 {
		t.Fatal("the CRD has no status.inventory.hardware")
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&declared, internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

// What was read is good for an hour, however often it is asked for.
func TestReadOnceAnHour(t *testing.T) {
	root, now := machine(t, map[string]string{"/sys/firmware/dmi/tables/DMI": ""}), time.Now()
	reader := &inventory.Reader{Root: root, Now: func() time.Time { return now }}
	reader.Read()
	if err := os.MkdirAll(root.Path("/sys/firmware/efi"), 0o755); err != nil {
		t.Fatal(err)
	}
	now = now.Add(59 * time.Minute)
	if got := reader.Read().BootMode; got != infrav1.BootModeBIOS {
		t.Errorf("boot mode %s within the hour", got)
	}
	now = now.Add(time.Minute)
	if got := reader.Read().BootMode; got != infrav1.BootModeUEFI {
		t.Errorf("boot mode %s after an hour", got)
	}
}
