package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// versionVariable is set by the linker.
const versionVariable = "github.com/slipway-dev/slipway/internal/version.Version"

// buildBinaries links each program statically for each architecture, and puts the
// agent's systemd unit beside them.
func (r *release) buildBinaries(ctx context.Context) error {
	for _, p := range programs {
		for _, arch := range r.architectures {
			if err := r.build(ctx, p.name, arch); err != nil {
				return err
			}
		}
	}
	const unit = "slipway-agent.service"
	return copyFile(filepath.Join(r.source, "config", "agent", unit), filepath.Join(r.assets(), unit))
}

func (r *release) build(ctx context.Context, name, arch string) error {
	ldflags := fmt.Sprintf("-s -w -X %s=%s", versionVariable, r.version)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", r.binary(name, arch), "./cmd/"+name)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s: %w", name, arch, err)
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
