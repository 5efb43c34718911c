package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

const folder = "../../config/monitoring"

type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Expr        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

//nolint:tagliatelle // promtool names them so.
type testFile struct {
	Tests []struct {
		AlertRuleTest []struct {
			Alertname string `json:"alertname"`
			Expected  []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

// Every alert fires when it has to and at no other time, as the tests of the rules have it.
func TestAlerts(t *testing.T) {
	promtool := filepath.Join(Programs(os.Getenv("SLIPWAY_BIN")), "promtool")
	if _, err := os.Stat(promtool); err != nil {
		rights.Skip(t, "needs promtool; run `make prometheus`, and set SLIPWAY_BIN to the folder of programs")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Every alert is tested to fire and not to, asks for metrics that exist, and has a runbook.
func TestAlertsAreWhole(t *testing.T) {
	rules, tests := ruleFile{}, testFile{}
	read(t, "alerts.yaml", &rules)
	read(t, "alerts_test.yaml", &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, c := range test.AlertRuleTest {
			fires[c.Alertname] = fires[c.Alertname] || len(c.Expected) > 0
			silent[c.Alertname] = silent[c.Alertname] || len(c.Expected) == 0
		}
	}
	metrics, runbooks := text(t, "../../docs/metrics.md"), text(t, "../../docs/runbooks.md")
	metric := regexp.MustCompile(`\b(?:slipway|runtime)_[a-z_]+`)
	names := map[string]bool{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			names[rule.Alert] = true
			if !fires[rule.Alert] {
				t.Errorf("%s: no test has it fire", rule.Alert)
			}
			for _, name := range metric.FindAllString(rule.Expr, -1) {
				if !strings.Contains(metrics, "`"+name+"{") && !strings.Contains(metrics, "`"+name+"`") {
					t.Errorf("%s: there is no metric %s", rule.Alert, name)
				}
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
			}
			if want := "https://github.com/slipway-dev/slipway/blob/main/docs/runbooks.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
				t.Errorf("%s: its runbook is %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
			}
			if !strings.Contains(runbooks, "\n## "+rule.Alert+"\n") {
				t.Errorf("%s has no section in docs/runbooks.md", rule.Alert)
			}
		}
	}
	for _, section := range regexp.MustCompile(`\n## (\w+)\n`).FindAllStringSubmatch(runbooks, -1) {
		if !names[section[1]] {
			t.Errorf("docs/runbooks.md has a section for %s, which is no alert", section[1])
		}
	}
	for name := range names {
		if !silent[name] {
			t.Errorf("%s: no test has it stay silent", name)
		}
	}
}

// The dashboards ask for metrics that exist. That their queries have data is shown on a live
// plane, by test/e2e.
func TestDashboards(t *testing.T) {
	metrics := text(t, "../../docs/metrics.md")
	metric := regexp.MustCompile(`\b(?:slipway|runtime|capi)_[a-z_]+`)
	for _, name := range []string{"fleet", "cluster", "host", "lifecycle", "runtime-sdk"} {
		panels := Panels(t, filepath.Join(folder, "dashboards"), name)
		if len(panels) < 5 {
			t.Errorf("dashboard %s has %d panels", name, len(panels))
		}
		for _, panel := range panels {
			for _, query := range panel.Queries {
				for _, found := range metric.FindAllString(query, -1) {
					found = regexp.MustCompile(`_(?:bucket|count|sum)$`).ReplaceAllString(found, "")
					if !strings.Contains(metrics, "`"+found+"{") && !strings.Contains(metrics, "`"+found+"`") {
						t.Errorf("%s, %s: there is no metric %s", name, panel.Title, found)
					}
				}
			}
		}
	}
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text(t, filepath.Join(folder, name))), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
