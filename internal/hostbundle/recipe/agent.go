package recipe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// Agent writes the bundle by which hosts update slipway-agent to a version. programs are the
// files with it by architecture.
func Agent(w *hostbundle.Writer, version string, programs map[string]string) error {
	var contents []hostbundle.Contents
	for _, architecture := range slices.Sorted(maps.Keys(programs)) {
		component, err := w.Component(hostbundle.AgentProgram, version, []hostbundle.Source{
			{Path: hostbundle.AgentProgram, From: programs[architecture], Mode: 0o755},
		})
		if err != nil {
			return fmt.Errorf("slipway-agent for %s: %w", architecture, err)
		}
		contents = append(contents, hostbundle.Contents{AgentVersion: version, Architecture: architecture, Components: []hostbundle.Component{component}})
	}
	return w.Bundle(hostbundle.AgentTag(version), contents...)
}
