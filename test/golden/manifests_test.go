package golden

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/providercheck"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// kustomizations are what users apply; the first and the third are what clusterctl installs.
var kustomizations = []string{"default", "namespaced", "lifecycle/default", "lifecycle/namespaced", "console"}

// The manifests that clusterctl and kubectl apply, without the schemas of kinds: those are in
// config/crd/bases and config/lifecycle/crd/bases.
func TestManifests(t *testing.T) {
	testenv.Skip(t)
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal("KUBEBUILDER_ASSETS names no folder with kubectl: set it to bin/envtest, which `make envtest` builds")
	}
	dependOn(t, filepath.Join(root, "config"))
	for _, folder := range kustomizations {
		kubectl := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), "kustomize", filepath.Join(root, "config", folder))
		var failed bytes.Buffer
		kubectl.Stderr = &failed
		rendered, err := kubectl.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, failed.String())
		}
		compare(t, "manifests/"+strings.ReplaceAll(folder, "/", "-")+".yaml", withoutSchemas(t, rendered))
		if folder == "console" { // which clusterctl does not install
			continue
		}
		provider := "infrastructure-slipway"
		if strings.HasPrefix(folder, "lifecycle/") {
			provider = "runtime-extension-slipway-lifecycle"
		}
		checkOwn(t, provider, rendered)
	}
}

// checkOwn has our own linter look at components. A whole release is checked in the deep suite.
func checkOwn(t *testing.T, provider string, components []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "components.yaml")
	if err := os.WriteFile(file, components, 0o600); err != nil {
		t.Fatal(err)
	}
	releases, err := providercheck.Source{Place: file, Provider: provider}.Releases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range releases {
		for _, finding := range providercheck.Check(release) {
			if finding.Rule != "components-label" { // which the release adds to the lifecycle engine's
				t.Errorf("%+v", finding)
			}
		}
	}
}

// dependOn has the go command see what kubectl reads, so that it runs the test again when one of
// the files changes.
func dependOn(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// withoutSchemas leaves out what is in config already.
func withoutSchemas(t *testing.T, manifests []byte) string {
	t.Helper()
	var documents []string
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(object, "spec", "versions")
		for _, version := range versions {
			delete(version.(map[string]any), "schema")
		}
		if object["kind"] == "CustomResourceDefinition" {
			if err := unstructured.SetNestedSlice(object, versions, "spec", "versions"); err != nil {
				t.Fatal(err)
			}
			if document, err = yaml.Marshal(object); err != nil {
				t.Fatal(err)
			}
		}
		documents = append(documents, string(document))
	}
	return strings.Join(documents, "---\n")
}

// values are those that templates are rendered with.
var values = map[string]string{
	"CLUSTER_NAME": "prod", "NAMESPACE": "team", "KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "5",
}

// Templates of clusters, as clusterctl renders them, with the variables that they have.
func TestTemplates(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "templates", "cluster*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var page strings.Builder
	processor := yamlprocessor.NewSimpleProcessor()
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		variables, err := processor.GetVariableMap(raw)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&page, "# ==== %s\n", filepath.Base(file))
		var names []string
		for name, defaultValue := range variables {
			if defaultValue != nil {
				name += " default " + *defaultValue
			}
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&page, "# variable %s\n", name)
		}
		rendered, err := processor.Process(raw, func(name string) (string, error) {
			if values[name] != "" {
				return values[name], nil
			}
			if variables[name] != nil {
				return *variables[name], nil
			}
			return "value-of-" + strings.ToLower(name), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		page.Write(rendered)
	}
	compare(t, "templates.txt", page.String())
}

// shippedFiles are what users get as it is in this repository.
var shippedFiles = []string{
	"config/agent", "config/monitoring/alerts.yaml", "config/monitoring/dashboards", "templates/policies", "templates/local",
	"internal/console/assets", "internal/extensionproject/templates", "internal/hookdocs", "metadata.yaml",
}

// Files that are shipped as they are: their digests, since their history is in git. A file that
// moves keeps its line.
func TestFiles(t *testing.T) {
	lines := map[string]bool{}
	for _, shipped := range shippedFiles {
		err := filepath.WalkDir(filepath.Join(root, shipped), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			data, err := os.ReadFile(path)
			lines[fmt.Sprintf("%s %x", filepath.Base(path), sha256.Sum256(data))] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	compareSet(t, "files.txt", lines, 30)
}
