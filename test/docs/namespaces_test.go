package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// usualNamespace is one that clusterctl gives a provider of this repository, unless --target-namespace names another.
var usualNamespace = regexp.MustCompile(`\bslipway(?:-lifecycle)?-system\b`)

// rewritten are the places of manifests where clusterctl puts the actual namespace.
var rewritten = regexp.MustCompile(`^\s*(?:- )?(?:namespace: |name: |cert-manager\.io/inject-ca-from: )"?slipway(?:-lifecycle)?-system\b|^\s*- [a-z-]+\.slipway(?:-lifecycle)?-system\.svc(?:\.cluster\.local)?$`)

// TestTextsHoldInAnyNamespace: no manifest, message or default means the usual namespace where it should mean the actual
// one. Documents name it, and docs/clusterctl.md says that and where another one takes its place.
func TestTextsHoldInAnyNamespace(t *testing.T) {
	// What clusterctl does not install: the ExtensionConfigs of the release, and files of a plane, whose namespaces are these.
	others := map[string]bool{"config/extension/extensionconfig.yaml": true, "config/lifecycle/extension/extensionconfig.yaml": true}
	manifests := 0
	walk(t, "config", func(name, content string) {
		for line := range strings.Lines(content) {
			switch line = strings.TrimRight(line, "\n"); {
			case !usualNamespace.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "#"):
			case others[name]:
				others[name] = false
			case !rewritten.MatchString(line):
				t.Errorf("%s: clusterctl leaves the namespace in %q as it is", name, line)
			default:
				manifests++
			}
		}
	})
	if manifests == 0 || slices.Contains(slices.Collect(maps.Values(others)), true) {
		t.Errorf("%d places of manifests were looked at; ExtensionConfigs without the namespace: %v", manifests, others)
	}
	for _, part := range []string{"api", "cmd", "internal", "sdk", "templates"} {
		walk(t, part, func(name, content string) {
			if usualNamespace.MatchString(content) && !strings.HasSuffix(name, "_test.go") && name != "internal/extensionproject/templates/deploy.yaml.tmpl" {
				t.Errorf("%s has the usual namespace of the provider, which may be another", name)
			}
		})
	}
	for name, want := range map[string]string{
		"docs/clusterctl.md": "With another `--target-namespace`, replace `slipway-system` and `slipway-lifecycle-system` on all pages, and in the release's two ExtensionConfigs.",
		"internal/extensionproject/templates/deploy.yaml.tmpl": "--target-namespace",
	} {
		page, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}

// walk visits the text files below a folder of the repository, and its tests' data not.
func walk(t *testing.T, folder string, visit func(name, content string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			visit(name, string(content))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestContractLabels: docs/contracts.md says of each kind which contracts its labels name.
func TestContractLabels(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/contracts.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(page), "\n- Every CRD has the labels ")
	rule, _, _ = strings.Cut(rule, "\n- ")
	_, exceptions, found := strings.Cut(rule, "have v1beta2 alone (")
	alone, none, foundNone := strings.Cut(exceptions, "no label (")
	if !found || !foundNone {
		t.Fatalf("docs/contracts.md does not say which kinds have v1beta2 alone or no label: %q", rule)
	}
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/lifecycle/crd/bases/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			var crd apiextensionsv1.CustomResourceDefinition
			content, err := os.ReadFile(name)
			if err == nil {
				err = yaml.Unmarshal(content, &crd)
			}
			if err != nil {
				t.Fatal(err)
			}
			kind := regexp.MustCompile(`\b` + crd.Spec.Names.Kind + `\b`)
			older, newer := crd.Labels["cluster.x-k8s.io/v1beta1"] != "", crd.Labels["cluster.x-k8s.io/v1beta2"] != ""
			if said := kind.MatchString(alone); said != (newer && !older) {
				t.Errorf("%s has v1beta2 alone: docs/contracts.md says %t, labels are %v", crd.Spec.Names.Kind, said, crd.Labels)
			}
			if said := kind.MatchString(none); said != (!newer && !older) {
				t.Errorf("%s has no label: docs/contracts.md says %t, labels are %v", crd.Spec.Names.Kind, said, crd.Labels)
			}
		}
	}
}
