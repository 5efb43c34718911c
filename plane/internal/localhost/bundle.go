package localhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoBundle means that the node bundle is not there or not complete.
var ErrNoBundle = errors.New("no node bundle; run `make bundle` as root")

// Bundle is the software of a host.
type Bundle struct {
	// Dir is the bundle's directory.
	Dir string
	// KubernetesVersion is the default version of a host, such as v1.36.3.
	KubernetesVersion string
	// PauseImage is the full name of the pod sandbox image.
	PauseImage string
}

// LoadBundle reads the bundle in dir and checks that all parts are there.
func LoadBundle(dir string) (*Bundle, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoBundle, err)
	}
	var manifest struct {
		Versions struct {
			Kubernetes string `json:"kubernetes"`
		} `json:"versions"`
		Images map[string]string `json:"images"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoBundle, filepath.Join(dir, "bundle.json"), err)
	}
	b := &Bundle{Dir: dir, KubernetesVersion: manifest.Versions.Kubernetes, PauseImage: manifest.Images["pause"]}
	if b.KubernetesVersion == "" || b.PauseImage == "" {
		return nil, fmt.Errorf("%w: bundle.json names no Kubernetes version or no pause image", ErrNoBundle)
	}
	for _, part := range []string{"bin", "cni", "kubernetes", "store"} {
		if st, err := os.Stat(filepath.Join(dir, part)); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%w: %s is missing", ErrNoBundle, filepath.Join(dir, part))
		}
	}
	return b, nil
}
