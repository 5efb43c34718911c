package providercheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/providercheck"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// stranger is a provider that nobody here wrote, as its release would be.
type stranger struct {
	label, version string
	// module@version holds the sources, metadata.yaml too; the kustomization is in folder.
	module, metadata, folder string
	// components is the name of the file in the release.
	components string
	// templates are files of the module.
	templates string
	// errors are the rules that are broken for certain, with how many findings each has.
	errors map[string]int
}

const (
	capi, capd = "sigs.k8s.io/cluster-api@v1.14.2", "sigs.k8s.io/cluster-api/test@v1.14.2"
	capa, capg = "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0", "sigs.k8s.io/cluster-api-provider-gcp@v1.13.1"
)

var strangers = []stranger{
	{label: "cluster-api", version: "v1.14.2", module: capi, metadata: capi, folder: "core/config/default", components: "core-components.yaml"},
	{label: "bootstrap-kubeadm", version: "v1.14.2", module: capi, metadata: capi, folder: "bootstrap/kubeadm/config/default", components: "bootstrap-components.yaml"},
	{label: "control-plane-kubeadm", version: "v1.14.2", module: capi, metadata: capi, folder: "controlplane/kubeadm/config/default", components: "control-plane-components.yaml"},
	{
		label: "infrastructure-docker", version: "v1.14.2", module: capd, metadata: capi, folder: "infrastructure/docker/config/default",
		components: "infrastructure-components-development.yaml", templates: "infrastructure/docker/templates/*.yaml",
	},
	{
		label: "infrastructure-aws", version: "v2.13.0", module: capa, metadata: capa, folder: "config/default",
		components: "infrastructure-components.yaml", templates: "templates/c*.yaml",
	},
	{
		label: "infrastructure-gcp", version: "v1.13.1", module: capg, metadata: capg, folder: "config/default",
		components: "infrastructure-components.yaml", templates: "templates/c*.yaml",
	},
}

// TestStrangers holds that a check finds no error in what upstream releases but those that
// somebody has looked into. It prints the precision: what an error says is true.
func TestStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("renders upstream's manifests, skipped by -short")
	}
	if err := judge.FindAssets("../../bin"); err != nil {
		t.Fatal(err)
	}
	reported, right := 0, 0
	for _, s := range strangers {
		t.Run(s.label, func(t *testing.T) {
			release, err := providercheck.Load(s.release(t))
			if err != nil {
				t.Fatal(err)
			}
			wanted := map[string]int{}
			for _, f := range providercheck.Check(release) {
				if f.Level != providercheck.Must {
					continue
				}
				reported++
				if wanted[f.Rule]++; wanted[f.Rule] > s.errors[f.Rule] {
					t.Errorf("a false error: %s:%d %s: %s [%s]", f.File, f.Line, f.Object, f.Message, f.Rule)
					continue
				}
				right++
			}
			for rule, n := range s.errors {
				if wanted[rule] != n {
					t.Errorf("%d findings of %s, want %d", wanted[rule], rule, n)
				}
			}
		})
	}
	t.Logf("precision %d of %d errors, in %d releases", right, reported, len(strangers))
}

// release writes the release and returns its directory.
func (s stranger) release(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), s.label, s.version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, module := range slices.Compact([]string{s.module, s.metadata}) {
		source, err := judge.Download(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		sources[module] = source
	}
	components, err := judge.Kustomize(t.Context(), filepath.Join(sources[s.module], s.folder))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{s.components: components}
	names, err := filepath.Glob(filepath.Join(sources[s.module], s.templates))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, filepath.Join(sources[s.metadata], "metadata.yaml")) {
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = data
	}
	if _, ok := files["metadata.yaml"]; !ok {
		t.Fatal(fmt.Errorf("%s has no metadata.yaml", s.metadata))
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var contractLabels = regexp.MustCompile(`(?m)^    cluster\.x-k8s\.io/v1(alpha|beta)\d: .*\n`)

// TestStrippedStrangers holds that the kinds of bootstrap and control-plane providers are
// judged, too.
func TestStrippedStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("renders upstream's manifests, skipped by -short")
	}
	if err := judge.FindAssets("../../bin"); err != nil {
		t.Fatal(err)
	}
	for _, s := range strangers[1:3] {
		dir := s.release(t)
		path := filepath.Join(dir, s.components)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, contractLabels.ReplaceAll(data, nil), 0o644); err != nil {
			t.Fatal(err)
		}
		release, err := providercheck.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range providercheck.Check(release) {
			if f.Rule == "crd-contract-label" {
				found = append(found, f.Object)
			}
		}
		if len(found) != 2 {
			t.Errorf("%s without its labels: found %v", s.label, found)
		}
	}
}
