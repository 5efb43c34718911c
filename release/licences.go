package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// licenceFile is a file of a module's root that holds a licence.
var licenceFile = regexp.MustCompile(`(?i)^(?:licen[cs]e|copying)(?:[-._].*)?$`)

// covered is how much of a licence file, in per cent, must be text of licences that are
// known, so that its names stand for all it says. It is the least that pkg.go.dev takes.
const covered = 75

// byNotice are the licences of modules that have them in the notices of their files alone.
var byNotice = map[string]string{
	"github.com/ajeddeloh/go-json": "BSD-3-Clause", // a copy of Go's encoding/json, with Go's notice
}

// licencesOf are the SPDX identifiers of the licences in the root of a module. It is an
// error not to find one: a bill of materials that leaves it out is no answer to whoever
// asks.
func licencesOf(dir string) (*cdx.Licenses, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		found := licensecheck.Scan(text)
		if found.Percent < covered {
			continue
		}
		for _, match := range found.Match {
			ids = append(ids, match.ID)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no file in %s holds a licence that is known", dir)
	}
	slices.Sort(ids)
	var all cdx.Licenses
	for _, id := range slices.Compact(ids) {
		all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return &all, nil
}

// sources is where the source of modules lies.
type sources struct {
	// own is this repository, goroot Go, and cache the module cache.
	own, goroot, cache string
}

// findSources asks Go.
func findSources(ctx context.Context, own string) (sources, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return sources{}, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != 2 {
		return sources{}, fmt.Errorf("go env says %q, and should tell GOROOT and GOMODCACHE", out)
	}
	return sources{own: own, goroot: lines[0], cache: lines[1]}, nil
}

// of is the root of a module.
func (s sources) of(path, version string) (string, error) {
	switch {
	case path == standardLibrary:
		return s.goroot, nil
	case ours(path):
		return s.own, nil
	}
	escapedPath, err := module.EscapePath(path)
	if err != nil {
		return "", err
	}
	escapedVersion, err := module.EscapeVersion(version)
	if err != nil {
		return "", err
	}
	return filepath.Join(s.cache, escapedPath+"@"+escapedVersion), nil
}

// licencesOf are the licences of a module.
func (s sources) licencesOf(path, version string) (*cdx.Licenses, error) {
	if id, ok := byNotice[path]; ok {
		return &cdx.Licenses{{License: &cdx.License{ID: id}}}, nil
	}
	dir, err := s.of(path, version)
	if err != nil {
		return nil, err
	}
	return licencesOf(dir)
}
