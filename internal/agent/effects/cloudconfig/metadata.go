package cloudconfig

import (
	"maps"
	"regexp"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig/jinja"
)

// MetaData is what a jinja template can refer to. As in cloud-init it is
// reached as ds.meta_data.<key>, the standard keys also as v1.<key> and by their name
// alone. local_hostname and instance_id have their names with a dash as well, as v1['local-hostname'].
type MetaData struct {
	// LocalHostname is the host name of the machine.
	LocalHostname string
	// InstanceID is the ID of the claim.
	InstanceID string
	// ProviderID is the provider ID the Node will carry.
	ProviderID string
	// LocalIPv4 is the address of the host; empty leaves the variable undefined.
	LocalIPv4 string
	// DefaultInterface is the network interface of the default route; empty leaves the
	// variable undefined.
	DefaultInterface string
	// Machine and KernelRelease are what uname says of the machine; empty when that is not known.
	Machine, KernelRelease string
	// OSRelease has the fields of os-release(5); empty when they cannot be read.
	OSRelease map[string]string
}

// elsewhere are the standard keys of cloud-init, and its other names at top level, that a host of this provider
// has nothing for. With cloud-init each of them exists on every machine.
var elsewhere = struct{ standard, top []string }{
	standard: []string{
		"_beta_keys", "availability_zone", "cloud_id", "cloud_name", "distro", "distro_release", "distro_version", "kernel_release", "machine", "platform",
		"public_ssh_keys", "python_version", "region", "subplatform", "system_platform", "variant",
	},
	top: []string{"base64_encoded_keys", "features", "merged_cfg", "merged_system_cfg", "sensitive_keys", "sys_info", "system_info", "userdata", "vendordata", "vendordata2"},
}

func (m MetaData) variables() map[string]any {
	standard := map[string]any{}
	for _, name := range elsewhere.standard {
		standard[name] = jinja.Elsewhere{}
	}
	maps.Copy(standard, m.system())
	names := map[string]any{"local_hostname": m.LocalHostname, "local-hostname": m.LocalHostname, "instance_id": m.InstanceID, "instance-id": m.InstanceID}
	maps.Copy(standard, names)
	data := maps.Clone(names)
	data["hostname"] = m.LocalHostname
	data["provider_id"] = m.ProviderID
	if m.LocalIPv4 != "" {
		data["local_ipv4"] = m.LocalIPv4
	}
	if m.DefaultInterface != "" {
		data["default_interface"] = m.DefaultInterface
	}
	variables := maps.Clone(standard)
	for _, name := range elsewhere.top {
		variables[name] = jinja.Elsewhere{}
	}
	variables["ds"] = map[string]any{"meta_data": data}
	variables["v1"] = standard
	return variables
}

// codename is a release's in a version such as 8 (Core).
var codename = regexp.MustCompile(`^[^ ]+ \(([^)]+)\)`)

// system are the standard keys of the machine and its system, named as cloud-init names them.
func (m MetaData) system() map[string]any {
	known := map[string]any{}
	if m.Machine != "" {
		known["machine"] = m.Machine
	}
	if m.KernelRelease != "" {
		known["kernel_release"] = m.KernelRelease
	}
	if len(m.OSRelease) == 0 {
		return known
	}
	id, release := m.OSRelease["ID"], m.OSRelease["VERSION_CODENAME"]
	switch {
	case strings.Contains(id, "sles"), strings.Contains(id, "suse"):
		release = m.Machine
	case id == "alpine", id == "photon", id == "virtuozzo":
		release = m.OSRelease["PRETTY_NAME"]
	case release == "":
		if match := codename.FindStringSubmatch(m.OSRelease["VERSION"]); match != nil {
			release = match[1]
		}
	}
	if id == "rhel" {
		id = "redhat"
	}
	known["distro"], known["distro_version"], known["distro_release"] = id, m.OSRelease["VERSION_ID"], release
	return known
}
