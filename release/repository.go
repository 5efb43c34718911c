package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// errSeries says that metadata.yaml doesn't know the series of the release.
var errSeries = errors.New("metadata.yaml has no entry of releaseSeries for it; add one with its contract")

// writeRepositories writes what clusterctl reads. The names of the files are those
// of its contract.
func (r *release) writeRepositories(context.Context) error {
	for _, p := range repositories {
		if err := r.writeComponents(p); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
		if err := copyFile(r.metadata(), filepath.Join(r.repository(p), "metadata.yaml")); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
		if p.templates {
			if err := r.writeTemplates(p); err != nil {
				return err
			}
		}
		if err := r.writeAssets(p); err != nil {
			return err
		}
	}
	return nil
}

// writeAssets puts the files of a provider beside the other assets: a release of GitHub has no
// folders, and clusterctl reads it by the same names. metadata.yaml is that of all providers.
func (r *release) writeAssets(p repository) error {
	files, err := filepath.Glob(filepath.Join(r.repository(p), "*.yaml"))
	if err != nil {
		return err
	}
	for _, from := range files {
		if err := copyFile(from, filepath.Join(r.assets(), filepath.Base(from))); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeTemplates(p repository) error {
	templates, err := filepath.Glob(filepath.Join(r.source, "templates", "cluster*.yaml"))
	if err != nil {
		return err
	}
	if len(templates) == 0 {
		return fmt.Errorf("there are no templates in %s", filepath.Join(r.source, "templates"))
	}
	for _, from := range templates {
		if err := copyFile(from, filepath.Join(r.repository(p), filepath.Base(from))); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeComponents(p repository) error {
	return r.render(p.config, filepath.Join(r.repository(p), p.components))
}

// writeConsole writes what `clusterctl generate yaml` makes the console in the management cluster of.
func (r *release) writeConsole(context.Context) error {
	return r.render("console", filepath.Join(r.assets(), "slipway-console.yaml"))
}

// render renders a kustomization below config with the images of this version.
func (r *release) render(config, to string) error {
	disk := filesys.MakeFsOnDisk()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, filepath.Join(r.source, "config", filepath.FromSlash(config)))
	if err != nil {
		return err
	}
	for _, program := range programs {
		if !program.image {
			continue
		}
		name, tag, _ := strings.Cut(r.imageReference(program), ":")
		if err := setImage(resources, kustomize.Image{Name: name, NewTag: tag, Digest: r.digests[program.name]}); err != nil {
			return err
		}
	}
	components, err := resources.AsYaml()
	if err != nil {
		return err
	}
	return os.WriteFile(to, components, 0o644)
}

// setImage gives an image its tag and digest, wherever a pod names it: who pulls it gets
// what was released, whatever the tag has come to mean.
func setImage(resources resmap.ResMap, image kustomize.Image) error {
	return resources.ApplyFilter(imagetag.Filter{
		ImageTag: image,
		FsSlice:  []kustomize.FieldSpec{{Path: "spec/template/spec/containers[]/image"}},
	})
}

// checkSeries wants metadata.yaml to know the series of the release: without it, it could
// be installed and never be upgraded. It is asked before anything is written.
func (r *release) checkSeries() error {
	data, err := os.ReadFile(r.metadata())
	if err != nil {
		return err
	}
	var metadata struct {
		ReleaseSeries []struct{ Major, Minor int32 } `json:"releaseSeries"`
	}
	if err := yaml.Unmarshal(data, &metadata); err != nil {
		return fmt.Errorf("metadata.yaml: %w", err)
	}
	for _, series := range metadata.ReleaseSeries {
		if semver.MajorMinor(r.version) == fmt.Sprintf("v%d.%d", series.Major, series.Minor) {
			return nil
		}
	}
	return fmt.Errorf("version %s: %w", r.version, errSeries)
}

func (r *release) metadata() string { return filepath.Join(r.source, "metadata.yaml") }
