package cli

import (
	"os"
	"path/filepath"
)

// BundleVariable of the environment names the node bundle.
const BundleVariable = "SLIPWAY_BUNDLE"

// NodeBundle is the directory of the node bundle that BundleVariable names, by default that beside the executable.
func NodeBundle() string {
	if dir := os.Getenv(BundleVariable); dir != "" {
		return dir
	}
	self, err := os.Executable()
	if err != nil {
		return "bundle"
	}
	return filepath.Join(filepath.Dir(self), "bundle")
}
