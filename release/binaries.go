package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// ownModule is what this tree is published as; its SDK is a module below it.
	ownModule = "github.com/slipway-dev/slipway"
	// versionVariable is set by the linker.
	versionVariable = ownModule + "/internal/version.Version"
)

// beside are files that go with the programs, by the names they are released under.
// The ExtensionConfig is no component of its provider: clusterctl deletes all
// components when it upgrades one, and without it hooks pass meanwhile.
var beside = map[string]string{
	"slipway-agent.service":                         "config/agent/slipway-agent.service",
	"slipway-in-place-updates-extensionconfig.yaml": "config/extension/extensionconfig.yaml",
	"slipway-lifecycle-extensionconfig.yaml":        "config/lifecycle/extension/extensionconfig.yaml",
}

// buildBinaries links each program statically for each of its platforms, and puts what
// goes with them beside them.
func (r *release) buildBinaries(ctx context.Context) error {
	for _, p := range programs {
		for _, on := range r.platforms(p) {
			if err := r.build(ctx, p, on); err != nil {
				return err
			}
		}
	}
	for name, from := range beside {
		if err := copyFile(filepath.Join(r.source, filepath.FromSlash(from)), filepath.Join(r.assets(), name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) build(ctx context.Context, p program, on platform) error {
	ldflags := fmt.Sprintf("-s -w -X %s=%s", versionVariable, r.version)
	if p.from == plane {
		ldflags += " " + r.kubernetes
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", r.binary(p.name, on), p.from.packages+p.name)
	cmd.Dir = filepath.Join(r.source, filepath.FromSlash(p.from.module))
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(r.source, filepath.FromSlash(p.from.file)), "CGO_ENABLED=0", "GOOS="+on.system, "GOARCH="+on.arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s/%s: %w", p.name, on.system, on.arch, err)
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
