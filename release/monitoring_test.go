package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Both files of alerts have the same rules, with the runbooks of their version; the
// dashboards are there.
func TestMonitoring(t *testing.T) {
	r, err := newRelease("..", t.TempDir(), "v0.1.0", "1700000000", []string{"amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.assets(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMonitoring(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := files(t, r.assets())
	type groups struct{ Groups []map[string]any }
	var plain groups
	var object struct {
		APIVersion, Kind string
		Spec             groups
	}
	if err := yaml.UnmarshalStrict([]byte(all[alertRules]), &plain); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(all[prometheusRule]), &object); err != nil {
		t.Fatal(err)
	}
	if object.APIVersion != "monitoring.coreos.com/v1" || object.Kind != "PrometheusRule" || len(plain.Groups) < 5 || !reflect.DeepEqual(plain, object.Spec) {
		t.Errorf("%s %s has %d groups, the rule file %d", object.APIVersion, object.Kind, len(object.Spec.Groups), len(plain.Groups))
	}
	for _, name := range []string{"cluster", "fleet", "host", "lifecycle", "runtime-sdk"} {
		if !json.Valid([]byte(all["slipway-dashboard-"+name+".json"])) {
			t.Errorf("dashboard %s is %q", name, all["slipway-dashboard-"+name+".json"])
		}
	}
	for _, name := range []string{alertRules, prometheusRule} {
		text := all[name]
		if strings.Contains(text, "/blob/main/") || !strings.Contains(text, "/blob/v0.1.0/docs/runbooks.md#") {
			t.Errorf("%s has runbooks of another version", name)
		}
	}
}
