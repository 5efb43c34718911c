package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

const (
	// pluginProgram is the plugin of kubectl, and pluginName what kubectl calls it.
	pluginProgram, pluginName = "kubectl-slipway", "slipway"
	// homepage of the project; what a release consists of is below it.
	homepage = "https://" + ownModule
)

// krewPlugin is the manifest by which krew, kubectl's plugin manager, installs a plugin:
// kind Plugin of krew.googlecontainertools.github.com/v1alpha2, described on
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/. Its file has the
// plugin's name.
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

// krewPlatform is an archive for one platform, all files of which are installed.
type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

// krewSelector is a label selector over the keys os and arch.
type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// writePlugin writes an archive of the plugin and its licence for each platform, and the
// manifest that names them by their digests.
func (r *release) writePlugin(context.Context) error {
	own := programs[slices.IndexFunc(programs, func(p program) bool { return p.name == pluginProgram })]
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": pluginName},
		Spec: krewSpec{
			Version:          r.version,
			Homepage:         homepage,
			ShortDescription: "Turn Linux hosts into clusters by Cluster API",
			Description: "Looks after the hosts, clusters, policies and extensions of Slipway in any\n" +
				"management cluster: adds hosts, creates and changes clusters, tells why a\n" +
				"machine waits, and what is wrong.\n",
		},
	}
	for _, on := range r.platforms(own) {
		digest, err := r.writePluginArchive(on)
		if err != nil {
			return fmt.Errorf("%s for %s/%s: %w", pluginProgram, on.system, on.arch, err)
		}
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": on.system, "arch": on.arch}},
			URI:      homepage + "/releases/download/" + r.version + "/" + filepath.Base(r.pluginArchive(on)),
			SHA256:   digest,
			Bin:      pluginProgram,
		})
	}
	content, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.assets(), pluginName+".yaml"), content, 0o644)
}

func (r *release) pluginArchive(on platform) string { return r.binary(pluginProgram, on) + ".tar.gz" }

// writePluginArchive returns the SHA-256 of what it wrote.
func (r *release) writePluginArchive(on platform) (digest string, err error) {
	return r.writeTarball(r.pluginArchive(on), []entry{
		{"LICENSE", filepath.Join(r.source, "LICENSE"), 0o644},
		{pluginProgram, r.binary(pluginProgram, on), 0o755},
	})
}
