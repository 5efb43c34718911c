package hostbundle

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

const (
	// AgentProgram is the component and the one file of a bundle that brings the agent.
	AgentProgram = "slipway-agent"

	// agentPrefix begins the tags of bundles with the agent. No Kubernetes version
	// begins so.
	agentPrefix = AgentProgram + "-"
)

// AgentTag names the bundle of a version of slipway-agent, as a Kubernetes version names
// that of its software.
func AgentTag(version string) string { return agentPrefix + version }

// AgentVersion is the version of slipway-agent that a tag is for; false for one of Kubernetes.
func AgentVersion(tag string) (string, bool) { return strings.CutPrefix(tag, agentPrefix) }

// Title is what the bundle of a tag brings, for messages.
func Title(tag string) string {
	if version, ok := AgentVersion(tag); ok {
		return AgentProgram + " " + version
	}
	return "Kubernetes " + tag
}

// isVersion says whether a text is a version with a leading v and all its parts.
func isVersion(s string) bool { return semver.IsValid(s) && semver.Canonical(s) == s }

// Tag names the bundle.
func (c Contents) Tag() string {
	if c.AgentVersion != "" {
		return AgentTag(c.AgentVersion)
	}
	return c.KubernetesVersion
}

// validateAgent holds that a bundle of the agent brings one program, and changes nothing
// else of a host.
func (c Contents) validateAgent() error {
	var errs []error
	if c.KubernetesVersion != "" {
		errs = append(errs, errors.New("kubernetesVersion: a bundle is of Kubernetes or of slipway-agent, not of both"))
	}
	if !isVersion(c.AgentVersion) {
		errs = append(errs, fmt.Errorf("agentVersion: want a version such as v0.9.1, not %q", c.AgentVersion))
	}
	if len(c.Components) != 1 || c.Components[0].Name != AgentProgram || len(c.Components[0].Files) != 1 || c.Components[0].Files[0].Path != AgentProgram {
		errs = append(errs, fmt.Errorf("components: want %s with the one file of that name", AgentProgram))
	}
	if len(c.Directories)+len(c.SharedDirectories)+len(c.Files)+len(c.Links)+len(c.Modules)+len(c.Units) > 0 {
		errs = append(errs, errors.New("a bundle of slipway-agent has no directories, files, links, modules or units"))
	}
	return errors.Join(errs...)
}
