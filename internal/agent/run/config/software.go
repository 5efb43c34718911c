package config

import (
	"path/filepath"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ManagementSource stands for the management cluster of the host among Software.Sources.
const ManagementSource = "management"

// Software says who brings Kubernetes versions onto a host.
type Software struct {
	// Management is Managed for a host whose agent installs the versions that are asked of it,
	// and removes those that nothing uses; Provided for one whose operator installs them.
	// Defaults to Provided.
	Management infrav1.HostSoftwareManagement `json:"management,omitempty"`
	// PublicKeyFile has the public keys of which one must have signed a host bundle, one a
	// line. Defaults to /etc/slipway/hostbundle.pub. Without it the host counts as Provided.
	PublicKeyFile string `json:"publicKeyFile,omitempty"`
	// Sources of host bundles, asked in this order: management, or oci:// with a registry
	// and a repository. Defaults to management.
	Sources []string `json:"sources,omitempty"`
	// CAFile has the CA of registries, besides those of the system.
	CAFile string `json:"caFile,omitempty"`
	// RegistryConfigFile has credentials for registries, as docker login writes it.
	RegistryConfigFile string `json:"registryConfigFile,omitempty"`
	// KeepVersions is how many of the versions that were installed last stay although nothing
	// uses them. Defaults to 2; at least 1.
	KeepVersions int `json:"keepVersions,omitempty"`
}

func (s *Software) setDefaults() {
	if s.Management == "" {
		s.Management = infrav1.HostSoftwareProvided
	}
	if s.PublicKeyFile == "" {
		s.PublicKeyFile = "/etc/slipway/hostbundle.pub"
	}
	if len(s.Sources) == 0 {
		s.Sources = []string{ManagementSource}
	}
	if s.KeepVersions == 0 {
		s.KeepVersions = 2
	}
}

func (s *Software) validate(fail func(field, format string, args ...any)) {
	if s.Management != infrav1.HostSoftwareManaged && s.Management != infrav1.HostSoftwareProvided {
		fail("software.management", "must be %s or %s, not %q", infrav1.HostSoftwareManaged, infrav1.HostSoftwareProvided, s.Management)
	}
	for field, path := range map[string]string{"publicKeyFile": s.PublicKeyFile, "caFile": s.CAFile, "registryConfigFile": s.RegistryConfigFile} {
		if path != "" && !filepath.IsAbs(path) {
			fail("software."+field, "must be an absolute path, not %q", path)
		}
	}
	for _, source := range s.Sources {
		if source != ManagementSource && !strings.HasPrefix(source, "oci://") {
			fail("software.sources", "must be %s or oci:// with a registry and a repository, not %q", ManagementSource, source)
		}
	}
	if s.KeepVersions < 1 {
		fail("software.keepVersions", "must be at least 1, not %d", s.KeepVersions)
	}
}
