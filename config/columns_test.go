package config_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
)

func definitions(t *testing.T, files fs.FS, pattern string) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no CRDs in %s: %v", pattern, err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, crd)
	}
	return all
}

// `kubectl get hosts` tells without -o wide whether a host is well, why not, and which agent it
// has, in whatever version kubectl asks for.
func TestHostsShowWhetherTheyAreWell(t *testing.T) {
	for _, crd := range definitions(t, config.FS, "crd/bases/*_hosts.yaml") {
		for _, version := range crd.Spec.Versions {
			var shown []string
			for _, column := range version.AdditionalPrinterColumns {
				if column.Priority == 0 {
					shown = append(shown, column.Name)
				}
			}
			for _, want := range []string{"Phase", "Ready", "Reason", "Agent"} {
				if !slices.Contains(shown, want) {
					t.Errorf("hosts of %s show %v, not %s", version.Name, shown, want)
				}
			}
		}
	}
}

// Objects that have a status are asked for often: each kind has a short name, and no two the
// same.
func TestShortNames(t *testing.T) {
	taken := map[string]string{}
	for _, crd := range append(definitions(t, config.FS, "crd/bases/*.yaml"), definitions(t, config.Lifecycle, "lifecycle/crd/bases/*.yaml")...) {
		names := crd.Spec.Names
		if crd.Spec.Versions[0].Subresources == nil || crd.Spec.Versions[0].Subresources.Status == nil || strings.HasPrefix(crd.Spec.Group, "runtime.") {
			continue
		}
		if len(names.ShortNames) != 1 {
			t.Errorf("%s has the short names %v", names.Plural, names.ShortNames)
		}
		for _, short := range names.ShortNames {
			if other := taken[short]; other != "" {
				t.Errorf("%s is short for %s and %s", short, other, names.Plural)
			}
			taken[short] = names.Plural
		}
	}
	if len(taken) < 6 {
		t.Errorf("only %v", taken)
	}
}

// Whoever still uses the version of Cluster API's former contract hears until when it works.
func TestFormerVersionsWarn(t *testing.T) {
	warned := 0
	for _, crd := range definitions(t, config.FS, "crd/bases/infrastructure.slipway.dev_*.yaml") {
		for _, version := range crd.Spec.Versions {
			if version.Deprecated != (version.Name == "v1beta1") {
				t.Errorf("%s %s: deprecated is %t", crd.Name, version.Name, version.Deprecated)
			}
			if !version.Deprecated {
				continue
			}
			warned++
			// Longer ones are cut.
			if w := version.DeprecationWarning; w == nil || len(*w) > 256 || !strings.HasPrefix(*w, crd.Spec.Names.Plural+" of ") || !strings.Contains(*w, "April 2027") {
				t.Errorf("%s %s warns %v", crd.Name, version.Name, w)
			}
		}
	}
	if warned != 7 {
		t.Errorf("%d kinds warn, want 7", warned)
	}
}
