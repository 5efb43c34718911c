package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOMs writes a CycloneDX bill of materials beside each binary, read from
// the binary itself: it lists what was linked, not what go.mod allows.
func (r *release) writeSBOMs(ctx context.Context) error {
	from, err := findSources(ctx, r.source)
	if err != nil {
		return err
	}
	for _, p := range programs {
		for _, on := range r.platforms(p) {
			if err := r.writeSBOM(from, p.name, r.binary(p.name, on)); err != nil {
				return fmt.Errorf("%s for %s/%s: %w", p.name, on.system, on.arch, err)
			}
		}
	}
	return nil
}

func (r *release) writeSBOM(from sources, name, binary string) (err error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bill, err := r.billOf(from, name, info)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.assets(), filepath.Base(binary)+".cdx.json"))
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
}

// standardLibrary is the name under which a bill has Go's own packages.
const standardLibrary = "std"

// ours says whether a module is of this repository.
func ours(path string) bool { return path == ownModule || strings.HasPrefix(path, ownModule+"/") }

func (r *release) billOf(from sources, name string, info *debug.BuildInfo) (*cdx.BOM, error) {
	modules := []*debug.Module{{Path: standardLibrary, Version: info.GoVersion}}
	for _, m := range info.Deps {
		switch {
		case ours(m.Path):
			m = &debug.Module{Path: m.Path, Version: r.version} // of this tree, tagged with the release
		case m.Replace != nil:
			m = m.Replace
		}
		modules = append(modules, m)
	}
	var components []cdx.Component
	for _, m := range modules {
		component, err := library(from, m.Path, m.Version)
		if err != nil {
			return nil, err
		}
		components = append(components, component)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	main, err := library(from, info.Path, r.version)
	if err != nil {
		return nil, err
	}
	main.Type = cdx.ComponentTypeApplication
	main.Name = name
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	return bom, nil
}

func library(from sources, path, version string) (cdx.Component, error) {
	licences, err := from.licencesOf(path, version)
	if err != nil {
		return cdx.Component{}, fmt.Errorf("licence of %s: %w", path, err)
	}
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cdx.Component{BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, Licenses: licences}, nil
}
