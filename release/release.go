package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// label is the provider's name in clusterctl's repositories.
const label = "infrastructure-slipway"

// imageRepository holds the images; their tag is the version.
const imageRepository = "ghcr.io/slipway-dev/"

// allArchitectures of what runs on hosts and in pods.
var allArchitectures = []string{"amd64", "arm64"}

// program is a binary of the root module.
type program struct {
	name string
	// image says whether it is released as an image, too.
	image bool
}

var programs = []program{
	{name: "slipway-agent"},
	{name: "slipway-manager", image: true},
}

// release is one release under way.
type release struct {
	source, out string
	version     string
	time        time.Time
	// architectures to build for.
	architectures []string
}

// step writes one part of the release.
type step struct {
	name string
	run  func(*release, context.Context) error
}

var steps = []step{
	{"binaries", (*release).buildBinaries},
	{"images", (*release).writeImages},
	{"SBOMs", (*release).writeSBOMs},
	{"provider repository", (*release).writeRepository},
	{"checksums", (*release).writeChecksums},
}

// write begins with empty directories, so that no file of an earlier release
// stays.
func (r *release) write(ctx context.Context) error {
	for _, dir := range []string{r.assets(), r.repository()} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, s := range steps {
		fmt.Fprintf(os.Stderr, "  REL   %s\n", s.name)
		if err := s.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (r *release) assets() string { return filepath.Join(r.out, "assets") }

func (r *release) repository() string {
	return filepath.Join(r.out, "repository", label, r.version)
}

func (r *release) binary(name, arch string) string {
	return filepath.Join(r.assets(), name+"-linux-"+arch)
}
