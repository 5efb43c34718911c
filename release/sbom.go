package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOMs writes a CycloneDX bill of materials beside each binary, read from
// the binary itself: it lists what was linked, not what go.mod allows.
func (r *release) writeSBOMs(context.Context) error {
	for _, p := range programs {
		for _, on := range r.platforms(p) {
			if err := r.writeSBOM(p.name, r.binary(p.name, on)); err != nil {
				return fmt.Errorf("%s for %s/%s: %w", p.name, on.system, on.arch, err)
			}
		}
	}
	return nil
}

func (r *release) writeSBOM(name, binary string) (err error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	f, err := os.Create(binary + ".cdx.json")
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(r.billOf(name, info))
}

func (r *release) billOf(name string, info *debug.BuildInfo) *cdx.BOM {
	components := []cdx.Component{library("std", info.GoVersion)}
	for _, m := range info.Deps {
		switch {
		case m.Path == ownModule || strings.HasPrefix(m.Path, ownModule+"/"):
			m = &debug.Module{Path: m.Path, Version: r.version} // of this tree, tagged with the release
		case m.Replace != nil:
			m = m.Replace
		}
		components = append(components, library(m.Path, m.Version))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	main := library(info.Path, r.version)
	main.Type = cdx.ComponentTypeApplication
	main.Name = name
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	return bom
}

func library(path, version string) cdx.Component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return cdx.Component{BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version}
}
