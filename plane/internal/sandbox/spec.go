package sandbox

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
)

// Spec describes a host. It is stored in the host's directory and read at each boot.
type Spec struct {
	// Instance is the name of the plane's instance: the parent cgroup.
	Instance string `json:"instance"`
	// Name of the host, a DNS label.
	Name string `json:"name"`
	// Hostname is the first host name; default Name.
	Hostname string `json:"hostname,omitempty"`
	// IP of eth0.
	IP netip.Addr `json:"ip"`
	// Gateway is the default route and the name server.
	Gateway netip.Addr `json:"gateway"`
	// MachineID is 32 hexadecimal digits and stays the same for the life of the host.
	MachineID string `json:"machineID"`
	// Dir is the host's directory, absolute.
	Dir string `json:"dir"`
	// Bundle is the node bundle, absolute.
	Bundle string `json:"bundle"`
	// KubernetesVersion is the directory below <bundle>/kubernetes whose programs
	// are on PATH at first boot.
	KubernetesVersion string `json:"kubernetesVersion"`
	// PauseImage is the full name of the sandbox image in the bundle.
	PauseImage string `json:"pauseImage"`
	// Sandbox is the path of the slipway-sandbox program on the machine.
	Sandbox string `json:"sandbox"`
	// Agent is the path of the slipway-agent program on the machine, if there is to be one.
	Agent string `json:"agent,omitempty"`
	// Cgroups is how the machine offered its controllers when the host was last booted.
	Cgroups cgroup.Layout `json:"cgroups"`
	// Files are put on the host before its services start.
	Files []File `json:"files,omitempty"`
	// Units replaces the default services; see DefaultUnits.
	Units []unit.Unit `json:"units,omitempty"`
}

// File is a file, or a symbolic link, on a host. A file is written when it is new
// or its content in the spec has changed since it was last written: what the host
// did to it in between then gives way, and otherwise stays.
type File struct {
	// Path on the host, absolute.
	Path string `json:"path"`
	// Mode of the file; default 0644.
	Mode fs.FileMode `json:"mode,omitempty"`
	// Content of the file.
	Content []byte `json:"content,omitempty"`
	// Target makes it a symbolic link.
	Target string `json:"target,omitempty"`
}

// Files in a host's directory.
const (
	specFile   = "spec.json"
	recordFile = "init.json"
	// InitLog is the console of the host.
	InitLog = "init.log"
)

var (
	validHost      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	validMachineID = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// ValidateName reports whether name can be the name of a host.
func ValidateName(name string) error {
	if !validHost.MatchString(name) {
		return fmt.Errorf("host name %q: want a DNS label (lower-case letters, digits and '-', at most 63)", name)
	}
	return nil
}

// Validate checks the spec for what would otherwise fail deep inside the boot.
func (s Spec) Validate() error {
	if err := ValidateName(s.Name); err != nil {
		return err
	}
	if s.Hostname != "" {
		if err := ValidateName(s.Hostname); err != nil {
			return err
		}
	}
	if !s.IP.Is4() || !s.Gateway.Is4() {
		return fmt.Errorf("host %s: want an IPv4 address and gateway, not %s and %s", s.Name, s.IP, s.Gateway)
	}
	if !validMachineID.MatchString(s.MachineID) {
		return fmt.Errorf("host %s: machine ID %q: want 32 hexadecimal digits", s.Name, s.MachineID)
	}
	for _, p := range []string{s.Dir, s.Bundle, s.Sandbox} {
		// The characters that separate the options of an overlay mount, and what mountinfo escapes.
		if !filepath.IsAbs(p) || strings.ContainsAny(p, ",:\\ \t\n") {
			return fmt.Errorf("host %s: path %q: want an absolute path without spaces and any of , : \\", s.Name, p)
		}
	}
	for _, f := range s.Files {
		if !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path {
			return fmt.Errorf("host %s: file %q: want a clean absolute path", s.Name, f.Path)
		}
	}
	for _, u := range s.Units {
		if err := u.Validate(); err != nil {
			return fmt.Errorf("host %s: %w", s.Name, err)
		}
	}
	return nil
}

// hostname is the host name at first boot.
func (s Spec) hostname() string {
	if s.Hostname != "" {
		return s.Hostname
	}
	return s.Name
}

// Group is the control group of the host.
func (s Spec) Group() cgroup.Group { return s.Cgroups.Group(s.Instance, s.Name) }

// AllUnits are the services of the host.
func (s Spec) AllUnits() []unit.Unit {
	if len(s.Units) > 0 {
		return s.Units
	}
	return DefaultUnits()
}

// LogPath is the log of a service, or of the host's init, on the disk of the host; Open opens it.
func (s Spec) LogPath(service string) (string, error) {
	if service == "init" {
		return "/" + InitLog, nil
	}
	names := []string{"init"}
	for _, u := range s.AllUnits() {
		names = append(names, u.Name)
	}
	if !slices.Contains(names, service) {
		return "", fmt.Errorf("host %s has no service %q; it has %s", s.Name, service, strings.Join(names, ", "))
	}
	return filepath.Join("/var/log", service+".log"), nil
}

// Save stores the spec in its directory. It holds secrets, so only root reads it.
func (s Spec) Save() error { return writeJSON(filepath.Join(s.Dir, specFile), s) }

// LoadSpec reads the spec of the host in dir.
func LoadSpec(dir string) (Spec, error) {
	var s Spec
	err := readJSON(filepath.Join(dir, specFile), &s)
	return s, err
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces the file so that after a power cut it holds the old or the new value.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(path, append(b, '\n'), 0o600)
}
