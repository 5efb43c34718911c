package hostbundle

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Contents are everything that a bundle brings to a host of one architecture: what makes it a
// node of a Kubernetes version, or a version of slipway-agent.
type Contents struct {
	// KubernetesVersion with a leading v; empty in a bundle of slipway-agent.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// AgentVersion with a leading v; empty in a bundle of Kubernetes.
	AgentVersion string `json:"agentVersion,omitempty"`
	// Architecture is Go's name of it, such as amd64.
	Architecture string `json:"architecture"`
	// Origin says who built Kubernetes; see BuiltBy.
	Origin Origin `json:"origin,omitempty"`
	// Components are unpacked side by side, each into a directory of its own.
	Components []Component `json:"components"`
	// Directories are for what the software itself writes, below /var/lib/slipway. They
	// and what is in them go with the last version.
	Directories []string `json:"directories,omitempty"`
	// SharedDirectories are where others put files while the host is a node, such as the
	// configuration of its network. They go with the last version once they are empty.
	SharedDirectories []string `json:"sharedDirectories,omitempty"`
	// Files are written to the host.
	Files []HostFile `json:"files,omitempty"`
	// Links lead from the host's paths into components, or to each other.
	Links []Link `json:"links,omitempty"`
	// Modules of the kernel that are loaded at once; a file of modules-load.d loads them at
	// each boot.
	Modules []string `json:"modules,omitempty"`
	// Units of systemd that are started, in this order.
	Units []string `json:"units,omitempty"`
}

// Origin says who built the programs and images of a bundle.
type Origin string

const (
	// OriginUpstream means that they are the bytes that upstream published.
	OriginUpstream Origin = "Upstream"
	// OriginOwnBuild means that this repository compiled them from upstream's sources.
	OriginOwnBuild Origin = "OwnBuild"
)

// BuiltBy is the origin of a bundle of Kubernetes: bundles that do not name it were made when
// there was only the own build. It is empty for slipway-agent.
func (c Contents) BuiltBy() Origin {
	if c.AgentVersion == "" && c.Origin == "" {
		return OriginOwnBuild
	}
	return c.Origin
}

// Component is a directory of programs or data with one version.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Layer is the digest of the layer that holds it.
	Layer digest.Digest `json:"layer"`
	// Files in the order of the layer.
	Files []File `json:"files"`
}

// Size of all files, in bytes.
func (c Component) Size() int64 {
	var size int64
	for _, f := range c.Files {
		size += f.Size
	}
	return size
}

// File is one file of a component.
type File struct {
	// Path below the component's directory.
	Path string `json:"path"`
	// Mode holds the permission bits.
	Mode uint32 `json:"mode"`
	// Size in bytes.
	Size   int64         `json:"size"`
	Digest digest.Digest `json:"digest"`
}

// HostFile is a small text file that is in no component, such as a unit.
type HostFile struct {
	// Path on the host.
	Path string `json:"path"`
	// Mode holds the permission bits.
	Mode    uint32 `json:"mode"`
	Content string `json:"content"`
}

// Link is a symbolic link on the host.
type Link struct {
	// Path on the host.
	Path string `json:"path"`
	// Component that Target is relative to; without one Target is as readlink(2) tells it.
	Component string `json:"component,omitempty"`
	// Target in the component; "." for its directory.
	Target string `json:"target"`
}

// StateDirectory is where all Contents.Directories lie: they are removed with
// everything in them.
const StateDirectory = "/var/lib/slipway"

// placeable are the directories that a bundle may put files and links into.
var placeable = []string{"/etc/", "/opt/cni/", "/opt/slipway/", "/usr/local/bin/"}

var (
	componentName = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	moduleName    = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)
	unitName      = regexp.MustCompile(`^[a-zA-Z0-9@._-]+\.service$`)
)

// Validate refuses contents that would reach beyond what a bundle is for, whoever has
// signed them. The error names each field.
func (c Contents) Validate() error {
	var errs []error
	switch {
	case c.AgentVersion != "":
		errs = append(errs, c.validateAgent())
	case !isVersion(c.KubernetesVersion):
		errs = append(errs, fmt.Errorf("kubernetesVersion: want a version such as v1.36.3, not %q", c.KubernetesVersion))
	}
	if c.Origin != "" && c.Origin != OriginUpstream && c.Origin != OriginOwnBuild {
		errs = append(errs, fmt.Errorf("origin: want %s or %s, not %q", OriginUpstream, OriginOwnBuild, c.Origin))
	}
	components := map[string]bool{}
	for _, component := range c.Components {
		if components[component.Name] || !componentName.MatchString(component.Name) {
			errs = append(errs, fmt.Errorf("components: %q is no name, or there twice", component.Name))
		}
		components[component.Name] = true
		errs = append(errs, component.validate())
	}
	for _, l := range c.Links {
		if l.Component != "" && (!components[l.Component] || !filepath.IsLocal(l.Target)) || l.Target == "" {
			errs = append(errs, fmt.Errorf("links: %s leads to %q of component %q, which is not there", l.Path, l.Target, l.Component))
		}
	}
	for _, m := range c.Modules {
		if !moduleName.MatchString(m) {
			errs = append(errs, fmt.Errorf("modules: %q is no name of a module", m))
		}
	}
	for _, u := range c.Units {
		if !unitName.MatchString(u) {
			errs = append(errs, fmt.Errorf("units: %q is no service", u))
		}
	}
	return errors.Join(append(errs, c.validatePlaces())...)
}

// validatePlaces holds that each path is where a bundle may put something, and once.
func (c Contents) validatePlaces() error {
	var errs []error
	paths := map[string]bool{}
	place := func(field, p string, below ...string) {
		if paths[p] || path.Clean(p) != p || !startsWithAny(p, below) {
			errs = append(errs, fmt.Errorf("%s: %q is there twice, or not a path below %s", field, p, strings.Join(below, ", ")))
		}
		paths[p] = true
	}
	for _, d := range c.Directories {
		place("directories", d, StateDirectory+"/")
	}
	for _, d := range c.SharedDirectories {
		place("sharedDirectories", d, placeable...)
	}
	for _, f := range c.Files {
		place("files", f.Path, placeable...)
	}
	for _, l := range c.Links {
		place("links", l.Path, placeable...)
	}
	return errors.Join(errs...)
}

func (c Component) validate() error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range c.Files {
		if seen[f.Path] || !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path || f.Size < 0 || f.Mode&^0o777 != 0 || f.Digest.Validate() != nil {
			errs = append(errs, fmt.Errorf("component %s: file %q is there twice, leads out of it, or has no size, mode or digest of a file", c.Name, f.Path))
		}
		seen[f.Path] = true
	}
	return errors.Join(errs...)
}

func startsWithAny(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) && len(s) > len(p) {
			return true
		}
	}
	return false
}
