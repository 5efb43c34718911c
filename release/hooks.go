package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// hookDocuments are the names of the OpenAPI document of the runtime hooks: our own,
// and the one that Cluster API's releases have, for tools that look for it.
var hookDocuments = []string{"slipway-runtime-hooks-openapi.yaml", "runtime-sdk-openapi.yaml"}

// writeHookDocuments writes the OpenAPI document of the hooks that this release calls.
func (r *release) writeHookDocuments(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", "-buildvcs=false", "./internal/document", r.version)
	cmd.Dir = filepath.Join(r.source, "sdk")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	document, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("describe the hooks: %w", err)
	}
	if document, err = yaml.JSONToYAML(document); err != nil {
		return fmt.Errorf("describe the hooks: %w", err)
	}
	for _, name := range hookDocuments {
		if err := os.WriteFile(filepath.Join(r.assets(), name), document, 0o644); err != nil {
			return err
		}
	}
	return nil
}
