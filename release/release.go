package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// repository is what clusterctl reads of one provider.
type repository struct {
	// label is the provider's name in clusterctl's repositories.
	label string
	// config is the kustomization of its components, below config.
	config string
	// components is the name of the file they are written to, as clusterctl's
	// contract has it for the type of provider.
	components string
	// templates says whether the cluster templates belong to it.
	templates bool
}

var repositories = []repository{
	{label: "infrastructure-slipway", config: "default", components: "infrastructure-components.yaml", templates: true},
	{label: "runtime-extension-slipway-lifecycle", config: "lifecycle/default", components: "runtime-extension-components.yaml"},
}

// imageRepository holds the images; their tag is the version, and manifests name their
// digest, too.
const imageRepository = "ghcr.io/slipway-dev/"

// allArchitectures that are released for.
var allArchitectures = []string{"amd64", "arm64"}

// program is a binary of the root module.
type program struct {
	name string
	// systems that it is released for, as GOOS has them.
	systems []string
	// image says whether it is released as an image, too.
	image bool
}

// What runs on hosts and in pods is for Linux, what people run for their machines.
var programs = []program{
	{name: "slipway-agent", systems: []string{"linux"}},
	{name: "slipway-manager", systems: []string{"linux"}, image: true},
	{name: "slipway-lifecycle", systems: []string{"linux"}, image: true},
	{name: "kubectl-slipway", systems: []string{"linux", "darwin"}},
}

// release is one release under way.
type release struct {
	source, out string
	version     string
	time        time.Time
	// architectures to build for.
	architectures []string
	// installable leaves out all that is not installed into a management cluster.
	installable bool
	// key is the file of the private key that signs the checksums; they stay unsigned when empty.
	key string
	// digests are those of the images, by program.
	digests map[string]string
	// hostBundle is a directory with host bundles to release along; none when empty.
	hostBundle string
}

// step writes one part of the release.
type step struct {
	name string
	run  func(*release, context.Context) error
	// installable says that it writes what is installed into a management cluster.
	installable bool
}

var steps = []step{
	{"binaries", (*release).buildBinaries, true},
	{"images", (*release).writeImages, true},
	{"packages", (*release).writePackages, false},
	{"host bundles", (*release).writeHostBundle, false},
	{"plugin of kubectl", (*release).writePlugin, false},
	{"SBOMs", (*release).writeSBOMs, false},
	{"provider repositories", (*release).writeRepositories, true},
	{"hook documents", (*release).writeHookDocuments, false},
	{"alerts and dashboards", (*release).writeMonitoring, false},
	{"checksums", (*release).writeChecksums, false},
	{"signature", (*release).sign, false},
}

// write begins with empty directories, so that no file of an earlier release
// stays.
func (r *release) write(ctx context.Context) error {
	if err := r.checkSeries(); err != nil {
		return err
	}
	for _, dir := range r.dirs() {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if r.installable && !s.installable {
			continue
		}
		fmt.Fprintf(os.Stderr, "  REL   %s\n", s.name)
		if err := s.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// dirs are the directories of the release.
func (r *release) dirs() []string {
	dirs := []string{r.assets()}
	for _, p := range repositories {
		dirs = append(dirs, r.repository(p))
	}
	return dirs
}

func (r *release) assets() string { return filepath.Join(r.out, "assets") }

func (r *release) repository(p repository) string {
	return filepath.Join(r.out, "repository", p.label, r.version)
}

// platform is what a binary runs on, as GOOS and GOARCH have it.
type platform struct{ system, arch string }

// platforms that a program is released for.
func (r *release) platforms(p program) []platform {
	if r.installable && !p.image {
		return nil
	}
	var all []platform
	for _, system := range p.systems {
		for _, arch := range r.architectures {
			all = append(all, platform{system, arch})
		}
	}
	return all
}

func (r *release) binary(name string, on platform) string {
	return filepath.Join(r.assets(), name+"-"+on.system+"-"+on.arch)
}
