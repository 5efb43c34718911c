package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// program is a binary of this repository.
type program struct {
	name string
	// from is where it is built.
	from workspace
	// systems that it is released for, as GOOS has them.
	systems []string
	// image says whether it is released as an image, too.
	image bool
	// packed says that it is released within the archive and the packages of the plane alone.
	packed bool
}

// workspace is where a program is built: the directory of its module, where in it the packages of
// programs are, and the file that has the versions which they are compiled with.
type workspace struct{ module, packages, file string }

var (
	root       = workspace{".", "./cmd/", "hack/root.work"}
	plane      = workspace{"plane", "./cmd/", "go.work"}
	bundleTool = workspace{"cmd/slipway-bundle", "../", "hack/bundle.work"}
)

// What runs on hosts and in pods is for Linux, what people run for their machines.
var programs = []program{
	{name: "slipway-agent", from: root, systems: []string{"linux"}},
	{name: "slipway-manager", from: root, systems: []string{"linux"}, image: true},
	{name: "slipway-lifecycle", from: root, systems: []string{"linux"}, image: true},
	{name: "slipway-console", from: root, systems: []string{"linux"}, image: true},
	{name: "kubectl-slipway", from: root, systems: []string{"linux", "darwin"}},
	{name: "slipway-bundle", from: bundleTool, systems: []string{"linux", "darwin"}},
	{name: "slipway", from: plane, systems: []string{"linux"}, packed: true},
	{name: "slipway-sandbox", from: plane, systems: []string{"linux"}, packed: true},
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
	// nodeBundle is the directory of a node bundle to release along; none when empty.
	nodeBundle string
	// kubernetes are the linker's flags that tell the plane's programs which Kubernetes they are.
	kubernetes string
	// programs that are released in archives alone lie in this directory until the end.
	programs string
	// built is the directory of programs of which packages are made, and nothing else; all is built
	// and released when empty.
	built string
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
	{"archives of the plane", (*release).writeArchives, false},
	{"node bundle", (*release).writeNodeBundle, false},
	{"host bundles", (*release).writeHostBundle, false},
	{"plugin of kubectl", (*release).writePlugin, false},
	{"SBOMs", (*release).writeSBOMs, false},
	{"provider repositories", (*release).writeRepositories, true},
	{"console", (*release).writeConsole, true},
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
	var err error
	if r.programs, err = os.MkdirTemp("", "slipway-programs"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.programs) }()
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

func (r *release) assets() string {
	if r.built != "" {
		return r.out
	}
	return filepath.Join(r.out, "assets")
}

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
	if r.built != "" {
		return filepath.Join(r.built, name)
	}
	dir := r.assets()
	if slices.ContainsFunc(programs, func(p program) bool { return p.name == name && p.packed }) {
		dir = r.programs
	}
	return filepath.Join(dir, name+"-"+on.system+"-"+on.arch)
}
