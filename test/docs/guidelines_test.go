package docs

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/sdk/conformance"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func nothing[Request, Response any](context.Context, Request) (answer Response, err error) { return }

// The guidelines name every check that `slipway check extension` makes, and no other.
func TestGuidelinesNameTheChecks(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return errors.Join(
			extension.Handle(s, capi.GeneratePatches, "patches", nothing[*hooksv1.GeneratePatchesRequest, *hooksv1.GeneratePatchesResponse]),
			extension.Handle(s, capi.DiscoverVariables, "variables", nothing[*hooksv1.DiscoverVariablesRequest, *hooksv1.DiscoverVariablesResponse]),
			extension.Handle(s, capi.GenerateUpgradePlan, "plan", nothing[*hooksv1.GenerateUpgradePlanRequest, *hooksv1.GenerateUpgradePlanResponse]),
			extension.Handle(s, capi.CanUpdateMachine, "update", nothing[*hooksv1.CanUpdateMachineRequest, *hooksv1.CanUpdateMachineResponse]),
		)
	})
	catalog, err := hookdocs.Catalog(hookdocs.All)
	if err != nil {
		t.Fatal(err)
	}
	report, err := conformance.Check(t.Context(), conformance.Options{URL: ext.URL, CABundle: ext.CA.PEM, Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, result := range report.Results {
		name, _, _ := strings.Cut(result.Name, "/")
		name, _, _ = strings.Cut(name, ":")
		made = append(made, name)
	}
	page, err := os.ReadFile("../../docs/sdk/guidelines.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), "\n", " ")
	for _, name := range made {
		if !regexp.MustCompile(`(\*\*|[,:] )` + name + `(\*\*|[ ,.])`).MatchString(text) {
			t.Errorf("docs/sdk/guidelines.md does not name the check %q", name)
		}
	}
	for _, bold := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(text, -1) {
		if bold[1] != "bold" && !slices.Contains(made, bold[1]) {
			t.Errorf("docs/sdk/guidelines.md names the check %q, which is not made", bold[1])
		}
	}
}
