package main

import (
	"archive/tar"
	"debug/elf"
	"debug/macho"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"
)

// build writes the release of this tree for the architecture at hand.
func build(t *testing.T) *release {
	t.Helper()
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "1700000000", []string{runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	r.kubernetes = "-X k8s.io/component-base/version.gitVersion=v1.99.0"
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRelease(t *testing.T) {
	r := build(t)
	all := files(t, r.out)

	t.Run("repository", func(t *testing.T) {
		for _, name := range []string{
			"infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml", "cluster-template-clusterclass.yaml",
			"cluster-template-ha.yaml", "cluster-template-machinepool.yaml", "cluster-template-external-endpoint.yaml", "clusterclass-slipway.yaml",
		} {
			if all["repository/infrastructure-slipway/v0.1.0/"+name] == "" {
				t.Errorf("%s is missing", name)
			}
		}
	})
	t.Run("components", func(t *testing.T) {
		components := all["repository/infrastructure-slipway/v0.1.0/infrastructure-components.yaml"]
		if want := "image: ghcr.io/slipway-dev/slipway-manager:v0.1.0@" + digestOf(t, r, "slipway-manager") + "\n"; !strings.Contains(components, want) {
			t.Errorf("components lack %q", want)
		}
	})
	t.Run("lifecycle engine", func(t *testing.T) {
		dir := "repository/runtime-extension-slipway-lifecycle/v0.1.0/"
		components := all[dir+"runtime-extension-components.yaml"]
		for _, want := range []string{
			"image: ghcr.io/slipway-dev/slipway-lifecycle:v0.1.0@" + digestOf(t, r, "slipway-lifecycle") + "\n", "kind: MutatingWebhookConfiguration",
			"cluster.x-k8s.io/provider: runtime-extension-slipway-lifecycle",
		} {
			if !strings.Contains(components, want) {
				t.Errorf("components lack %q", want)
			}
		}
		// clusterctl deletes all components when it upgrades: while that takes, the
		// registration must stay.
		if strings.Contains(components, "kind: ExtensionConfig") || !strings.Contains(all["assets/slipway-lifecycle-extensionconfig.yaml"], "kind: ExtensionConfig") {
			t.Error("want the ExtensionConfig beside the components")
		}
		if all[dir+"metadata.yaml"] == "" || all[dir+"cluster-template.yaml"] != "" {
			t.Error("want metadata.yaml and no templates")
		}
	})
	t.Run("image", func(t *testing.T) { checkImage(t, r) })
	t.Run("command line", func(t *testing.T) { checkCommandLine(t, r) })
	t.Run("packages", func(t *testing.T) { checkPackages(t, r) })
	t.Run("plugin of kubectl", func(t *testing.T) { checkPlugin(t, r) })
	t.Run("SBOM", func(t *testing.T) {
		bill := all["assets/slipway-manager-linux-"+runtime.GOARCH+".cdx.json"]
		if !strings.Contains(bill, "pkg:golang/sigs.k8s.io/controller-runtime@v") {
			t.Error("the manager's bill of materials lacks controller-runtime")
		}
		if sdk := "pkg:golang/github.com/slipway-dev/slipway/sdk@" + r.version; !strings.Contains(bill, `"`+sdk+`"`) || strings.Contains(bill, "(devel)") {
			t.Errorf("the manager's bill of materials lacks %s, or names what nobody can find", sdk)
		}
	})
	t.Run("checksums", func(t *testing.T) {
		for name := range all {
			if name != "SHA256SUMS" && !strings.Contains(all["SHA256SUMS"], "  "+name+"\n") {
				t.Errorf("SHA256SUMS lacks %s", name)
			}
		}
	})
	t.Run("no path of the builder", func(t *testing.T) {
		root, err := filepath.Abs("..")
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range all {
			if strings.Contains(content, root+"/") {
				t.Errorf("%s contains %s", name, root)
			}
		}
	})
	t.Run("same bytes again", func(t *testing.T) {
		again := files(t, build(t).out)
		for name := range maps.Keys(all) {
			if all[name] != again[name] {
				t.Errorf("%s differs from one build to the next", name)
			}
		}
	})
}

// digestOf is that of the index in a program's image archive, which is what a registry that
// it is pushed to serves.
func digestOf(t *testing.T, r *release, program string) string {
	t.Helper()
	dir := t.TempDir()
	unpack(t, filepath.Join(r.assets(), program+"-image.tar"), dir)
	_, manifest := topOf(t, dir)
	return manifest.Manifests[0].Digest.String()
}

// checkCommandLine reads the headers that the kernels of its platforms do.
func checkCommandLine(t *testing.T, r *release) {
	linux, err := elf.Open(r.binary("kubectl-slipway", platform{"linux", runtime.GOARCH}))
	if err != nil {
		t.Fatal(err)
	}
	defer linux.Close()
	if libraries, err := linux.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v on Linux: %v", libraries, err)
	}
	darwin, err := macho.Open(r.binary("kubectl-slipway", platform{"darwin", runtime.GOARCH}))
	if err != nil {
		t.Fatal(err)
	}
	defer darwin.Close()
	if want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[runtime.GOARCH]; darwin.Cpu != want || darwin.Type != macho.TypeExec {
		t.Errorf("the program for macOS is a %v for %v", darwin.Type, darwin.Cpu)
	}
	own := programs[slices.IndexFunc(programs, func(p program) bool { return p.name == "kubectl-slipway" })]
	all := &release{architectures: allArchitectures}
	if got := all.platforms(own); !slices.Equal(got, []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}) {
		t.Errorf("a release has it for %v", got)
	}
	installable := &release{architectures: allArchitectures, installable: true}
	if got := installable.platforms(own); len(got) != 0 {
		t.Errorf("nobody installs it into a management cluster, and it is built for %v", got)
	}
}

// checkImage reads the archive back as a container runtime would.
func checkImage(t *testing.T, r *release) {
	dir := t.TempDir()
	unpack(t, filepath.Join(r.assets(), "slipway-manager-image.tar"), dir)
	img := onlyImage(t, dir)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != nobody || !slices.Equal(config.Config.Entrypoint, []string{"/manager"}) || config.Architecture != runtime.GOARCH {
		t.Errorf("config = %+v, architecture %s", config.Config, config.Architecture)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for tr := tar.NewReader(content); ; {
			header, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !header.ModTime.Equal(time.Unix(1700000000, 0)) {
				t.Errorf("%s has time %s, not that of the release", header.Name, header.ModTime)
			}
			names = append(names, header.Name)
		}
	}
	if !slices.Equal(names, []string{"manager"}) {
		t.Errorf("the image holds %v, and should hold the manager alone", names)
	}
}

// topOf is the index of an image layout, which names one image.
func topOf(t *testing.T, dir string) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return top, manifest
}

func onlyImage(t *testing.T, dir string) v1.Image {
	t.Helper()
	top, manifest := topOf(t, dir)
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "ghcr.io/slipway-dev/slipway-manager:v0.1.0" {
		t.Errorf("containerd would name the image %q", got)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(images.Manifests) != 1 {
		t.Fatalf("the index holds %d images, want one for %s", len(images.Manifests), runtime.GOARCH)
	}
	img, err := index.Image(images.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// unpack gives files the permissions that the archive has, and returns those.
func unpack(t *testing.T, archive, dir string) map[string]os.FileMode {
	t.Helper()
	modes := map[string]os.FileMode{}
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for tr := tar.NewReader(f); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.FileInfo().Mode()
		to := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, modes[header.Name].Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for name, tc := range map[string]struct{ version, epoch, want string }{
		"no v":       {"0.1.0", "0", "semantic version"},
		"short":      {"v0.1", "0", "semantic version"},
		"no time":    {"v0.1.0", "", "git log"},
		"not a time": {"v0.1.0", "today", "git log"},
	} {
		if _, err := newRelease("..", t.TempDir(), tc.version, tc.epoch, allArchitectures); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want one with %q", name, err, tc.want)
		}
	}
}

// A release whose series metadata.yaml lacks could be installed, but never be
// upgraded: clusterctl finds the contract by the series.
func TestUnknownSeries(t *testing.T) {
	r, err := newRelease("..", t.TempDir(), "v99.0.0", "0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.assets(), 0o755); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(r.assets(), "of-the-release-before")
	if err := os.WriteFile(before, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context()); !errors.Is(err, errSeries) {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(before); err != nil {
		t.Errorf("a release that cannot be made took what was there: %v", err)
	}
}

// Every kind of the components that is namespaced goes to the one Namespace.
func TestOneNamespace(t *testing.T) {
	for i, namespace := range []string{"slipway-system", "slipway-lifecycle-system"} {
		t.Run(repositories[i].label, func(t *testing.T) { checkNamespace(t, repositories[i], namespace) })
	}
}

// components are those of a provider, document by document.
func components(t *testing.T, p repository) []string {
	t.Helper()
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.repository(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.writeComponents(p); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(r.repository(p), p.components))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n---\n")
}

// What runs in pods asks for memory and has a limit: a program that leaks, or is made to,
// must not take the machine of its neighbors with it.
func TestContainersHaveMemoryLimits(t *testing.T) {
	for _, p := range repositories {
		containers := 0
		for _, document := range components(t, p) {
			var object struct {
				Kind     string
				Metadata struct{ Name string }
				Spec     struct {
					Template struct {
						Spec struct {
							Containers, InitContainers []struct {
								Name      string
								Resources struct{ Requests, Limits map[string]string }
							}
						}
					}
				}
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				if strings.Contains(document, "kind: Deployment") {
					t.Fatal(err)
				}
				continue
			}
			pod := object.Spec.Template.Spec
			for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
				containers++
				if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
					t.Errorf("%s %s: container %s has requests %v and limits %v", object.Kind, object.Metadata.Name, c.Name, c.Resources.Requests, c.Resources.Limits)
				}
			}
		}
		if containers != 1 {
			t.Errorf("%s: %d containers", p.label, containers)
		}
	}
}

func checkNamespace(t *testing.T, p repository, namespace string) {
	t.Helper()
	namespaces := 0
	for _, document := range components(t, p) {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "Namespace" {
			namespaces++
		}
		if ns := object.Metadata.Namespace; ns != "" && ns != namespace {
			t.Errorf("%s %s is in namespace %s", object.Kind, object.Metadata.Name, ns)
		}
	}
	if namespaces != 1 {
		t.Errorf("there are %d Namespaces, and clusterctl wants one", namespaces)
	}
}

// A CRD that kustomization.yaml forgets would be missing from a real installation
// alone: everything else reads config/crd/bases.
func TestEveryCRDIsReleased(t *testing.T) {
	bases, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(bases) == 0 {
		t.Fatalf("CRDs: %v, %v", bases, err)
	}
	kustomization, err := os.ReadFile("../config/crd/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range bases {
		if !strings.Contains(string(kustomization), "- bases/"+filepath.Base(base)+"\n") {
			t.Errorf("config/crd/kustomization.yaml lacks %s", filepath.Base(base))
		}
	}
}

// TestAssetsAreARepository holds that clusterctl finds the files of both providers among the assets,
// which are what a release of GitHub has, byte for byte those of the repository.
func TestAssetsAreARepository(t *testing.T) {
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "0", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range r.dirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeRepositories(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := files(t, r.out)
	for name, content := range all {
		if flat := "assets/" + filepath.Base(name); all[flat] != content {
			t.Errorf("%s is not %s", flat, name)
		}
	}
	for _, name := range []string{"infrastructure-components.yaml", "runtime-extension-components.yaml", "metadata.yaml", "cluster-template.yaml", "clusterclass-slipway.yaml"} {
		if all["assets/"+name] == "" {
			t.Errorf("the assets lack %s", name)
		}
	}
}
