package main

import (
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func TestPlan(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, register)
	for name, tt := range map[string]struct{ from, to, want, fails string }{
		"next minor":   {"v1.35.4", "v1.36.3", "v1.36.3", ""},
		"over three":   {"v1.33.2", "v1.36.3", "v1.34.6 v1.35.4 v1.36.3", ""},
		"a patch":      {"v1.35.1", "v1.35.4", "v1.35.4", ""},
		"nothing":      {"v1.35.4", "v1.35.4", "", ""},
		"not offered":  {"v1.36.3", "v1.39.0", "", "no release of v1.37"},
		"too far back": {"v1.30.0", "v1.36.3", "", "no release of v1.31"},
		"back":         {"v1.36.3", "v1.35.4", "", "no upgrade from v1.36.3 to v1.35.4"},
		"no version":   {"latest", "v1.36.3", "", "fromControlPlaneKubernetesVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			got := hooktest.Call(t, ext.Server, capi.GenerateUpgradePlan, "plan", &hooksv1.GenerateUpgradePlanRequest{FromControlPlaneKubernetesVersion: tt.from, ToKubernetesVersion: tt.to})
			var steps []string
			for _, step := range got.ControlPlaneUpgrades {
				steps = append(steps, step.Version)
			}
			if strings.Join(steps, " ") != tt.want || !strings.Contains(got.Message, tt.fails) || (got.Status == hooksv1.ResponseStatusFailure) != (tt.fails != "") {
				t.Errorf("got %q, %s %q", steps, got.Status, got.Message)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	ext := hooktest.Start(t, extension.Options{}, register)
	hooktest.Conformance(t, conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog})
}
