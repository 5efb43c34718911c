package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// manifestName is the file that vouches for a bundle; it is written last.
const manifestName = "bundle.json"

// manifest describes a bundle to whoever boots hosts from it.
type manifest struct {
	// Digest stands for the content: equal digests mean equal bundles.
	Digest string `json:"digest"`
	// Architecture is Go's name for the machine type of every binary.
	Architecture string   `json:"architecture"`
	Versions     versions `json:"versions"`
	// Kubernetes lists what a host may run, from old to new.
	Kubernetes []release `json:"kubernetes"`
	// Archive is the path of the OCI archive, relative to the bundle.
	Archive string `json:"archive"`
	// Images maps the short name of an image that no kubeadm asks for (such as
	// "flannel") to its full name.
	Images map[string]string `json:"images"`
}

// versions of the parts that all hosts share, each with a leading v, as compiled
// into the binaries.
type versions struct {
	Containerd string `json:"containerd"`
	Runc       string `json:"runc"`
	CNIPlugins string `json:"cniPlugins"`
	Flannel    string `json:"flannel"`
}

// release is one Kubernetes version and what its kubeadm pairs it with.
type release struct {
	// Version with a leading v; its programs are in kubernetes/<version>.
	Version string `json:"version"`
	// Images maps an image's short name (such as "pause") to its full name.
	Images map[string]string `json:"images"`
}

// shortNames maps "etcd" to "registry.k8s.io/etcd:3.6.8-0".
func shortNames(all []recipe) map[string]string {
	names := map[string]string{}
	for _, r := range all {
		names[r.shortName()] = r.ref
	}
	return names
}

func readManifest(bundle string) (manifest, error) {
	var m manifest
	raw, err := os.ReadFile(filepath.Join(bundle, manifestName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(bundle, manifestName), err)
	}
	return m, nil
}

func writeManifest(bundle string, m manifest) error {
	return replaceFile(filepath.Join(bundle, manifestName), 0o644, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(m)
	})
}

// refs lists the full names of all images in order, each once.
func (m manifest) refs() []string {
	all := slices.Collect(maps.Values(m.Images))
	for _, r := range m.Kubernetes {
		all = slices.AppendSeq(all, maps.Values(r.Images))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
