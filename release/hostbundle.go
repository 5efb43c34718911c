package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// writeHostBundle packs the OCI image layout of signed host bundles as it is: its
// signatures were made by whoever has the key.
func (r *release) writeHostBundle(context.Context) error {
	if r.hostBundle == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(r.hostBundle, "oci-layout")); err != nil {
		return fmt.Errorf("-host-bundle: want the directory that `make host-bundle` writes: %w", err)
	}
	return archive(filepath.Join(r.assets(), "host-bundle.tar"), r.hostBundle, r.time)
}
