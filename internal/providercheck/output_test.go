package providercheck_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

func planted(t *testing.T) providercheck.Results {
	t.Helper()
	r, err := providercheck.Load(plant(t, violation{file: components, old: "scope: Namespaced", changed: "scope: Cluster"}))
	if err != nil {
		t.Fatal(err)
	}
	return providercheck.Results{providercheck.NewResult(r, providercheck.Filter{})}
}

func TestWriteText(t *testing.T) {
	var out strings.Builder
	if err := planted(t).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := components + ":17: error: CustomResourceDefinition fooclusters.infrastructure.foo.com: scope is Cluster [crd-scope]\n    set spec.scope: Namespaced\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("text lacks %q:\n%s", want, out.String())
	}
}

func TestWriteJSON(t *testing.T) {
	one := planted(t)
	data, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	var back providercheck.Result
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.Errors != 1 || back.Findings[0].Rule != "crd-scope" || back.Findings[0].Line != 17 {
		t.Errorf("JSON gives %+v", back)
	}
	if data, err = json.Marshal(append(one, one...)); err != nil {
		t.Fatal(err)
	}
	var several struct{ Items []providercheck.Result }
	if err := json.Unmarshal(data, &several); err != nil || len(several.Items) != 2 {
		t.Errorf("JSON of two: %v, %+v", err, several)
	}
}

func TestWriteSARIF(t *testing.T) {
	var out strings.Builder
	if err := planted(t).WriteSARIF(&out); err != nil {
		t.Fatal(err)
	}
	back, err := sarif.FromString(out.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Validate(); err != nil {
		t.Errorf("not valid SARIF: %v", err)
	}
	run := back.Runs[0]
	if len(run.Tool.Driver.Rules) != len(providercheck.Rules) {
		t.Errorf("%d rules in the report, want %d", len(run.Tool.Driver.Rules), len(providercheck.Rules))
	}
	if !slices.ContainsFunc(run.Results, func(r *sarif.Result) bool { return *r.RuleID == "crd-scope" }) {
		t.Error("the finding is missing")
	}
}
