package localhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoBundle means that the node bundle is not there or not complete.
var ErrNoBundle = errors.New("no node bundle: install slipway-node-bundle of the release, or run `make bundle` as root")

// Bundle is the software of a host.
type Bundle struct {
	// Dir is the bundle's directory.
	Dir string
	// KubernetesVersions that every host offers, such as v1.36.3, from old to new.
	KubernetesVersions []string
	// PauseImage is the full name of the newest version's pod sandbox image.
	PauseImage string
}

// Newest is the version a host has on its PATH at first boot.
func (b *Bundle) Newest() string { return b.KubernetesVersions[len(b.KubernetesVersions)-1] }

// LoadBundle reads the bundle in dir and checks that all parts are there.
func LoadBundle(dir string) (*Bundle, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoBundle, err)
	}
	var manifest struct {
		Kubernetes []struct {
			Version string            `json:"version"`
			Images  map[string]string `json:"images"`
		} `json:"kubernetes"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoBundle, filepath.Join(dir, "bundle.json"), err)
	}
	b := &Bundle{Dir: dir}
	for _, k := range manifest.Kubernetes {
		b.KubernetesVersions = append(b.KubernetesVersions, k.Version)
		b.PauseImage = k.Images["pause"]
		if _, err := os.Stat(filepath.Join(dir, "kubernetes", k.Version, "kubelet")); k.Version == "" || err != nil {
			return nil, fmt.Errorf("%w: Kubernetes %q of bundle.json is missing", ErrNoBundle, k.Version)
		}
	}
	if b.PauseImage == "" {
		return nil, fmt.Errorf("%w: bundle.json names no Kubernetes version or no pause image", ErrNoBundle)
	}
	for _, part := range []string{"bin", "cni", "store"} {
		if st, err := os.Stat(filepath.Join(dir, part)); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%w: %s is missing", ErrNoBundle, filepath.Join(dir, part))
		}
	}
	return b, nil
}
