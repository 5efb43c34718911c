package inventory

import (
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/sysfs"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// features are what machines are chosen by, as Linux names them: instruction sets that
// programs are built for, and what it takes to run virtual machines and to keep their
// memory from others.
var features = map[string]bool{
	// x86
	"aes": true, "amx_bf16": true, "amx_int8": true, "amx_tile": true, "avx": true, "avx2": true, "avx512_bf16": true, "avx512_fp16": true,
	"avx512_vnni": true, "avx512bw": true, "avx512cd": true, "avx512dq": true, "avx512f": true, "avx512vl": true, "avx_vnni": true,
	"bmi2": true, "f16c": true, "fma": true, "gfni": true, "hypervisor": true, "pdpe1gb": true, "sev": true, "sev_es": true, "sev_snp": true,
	"sgx": true, "sha_ni": true, "sse4_2": true, "svm": true, "tdx_guest": true, "vaes": true, "vmx": true,
	// arm64
	"asimd": true, "asimddp": true, "atomics": true, "bf16": true, "crc32": true, "fphp": true, "i8mm": true, "sha2": true, "sha3": true,
	"sha512": true, "sve": true, "sve2": true,
}

func cpu(root hostfs.Root) infrav1.HostCPU {
	fs, err := procfs.NewFS(root.Path("/proc"))
	if err != nil {
		return infrav1.HostCPU{}
	}
	threads, err := fs.CPUInfo()
	if err != nil || len(threads) == 0 {
		return infrav1.HostCPU{}
	}
	first := threads[0]
	var has []string
	for _, flag := range first.Flags {
		if features[flag] {
			has = append(has, flag)
		}
	}
	slices.Sort(has)
	return infrav1.HostCPU{
		Vendor: text(first.VendorID, maxName), Model: text(first.ModelName, maxText), Cores: cores(threads), Threads: int32(min(len(threads), maxThreads)),
		Features: slices.Compact(has),
	}
}

// maxThreads is more than Linux can have.
const maxThreads = 1 << 20

// cores counts those that threads name; 0 where one of them names none.
func cores(threads []procfs.CPUInfo) int32 {
	named := map[[2]string]bool{}
	for i := range threads {
		if threads[i].CoreID == "" {
			return 0
		}
		named[[2]string{threads[i].PhysicalID, threads[i].CoreID}] = true
	}
	return int32(min(len(named), maxThreads))
}

func system(root hostfs.Root) infrav1.HostSystem {
	fs, err := sysfs.NewFS(root.Path("/sys"))
	if err != nil {
		return infrav1.HostSystem{}
	}
	dmi, err := fs.DMIClass()
	if err != nil {
		return infrav1.HostSystem{}
	}
	return infrav1.HostSystem{Vendor: told(dmi.SystemVendor), Product: told(dmi.ProductName), SerialNumber: told(dmi.ProductSerial)}
}

// blanks are what makers leave in firmware when they have nothing to say.
var blanks = []string{
	"default string", "empty", "n/a", "none", "not applicable", "not specified", "o.e.m.", "system manufacturer", "system product name",
	"system serial number", "to be filled by o.e.m.", "unknown",
}

func told(value *string) string {
	said := text(ptr.Deref(value, ""), maxText)
	if slices.Contains(blanks, strings.ToLower(said)) || strings.Trim(said, "0.- ") == "" {
		return ""
	}
	return said
}
