package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// Panel is one of a dashboard, with its queries as Grafana would send them for all
// namespaces and hosts.
type Panel struct {
	Title   string
	Queries []string
}

// choices are what Grafana puts in place of variables when a reader chooses nothing.
var choices = strings.NewReplacer("$namespace", ".*", "$host", ".*", "$__rate_interval", "1m")

// Panels are those of a dashboard in a folder.
func Panels(t *testing.T, folder, name string) []Panel {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var panels []Panel
	for _, p := range dashboard.Panels {
		panel := Panel{Title: p.Title}
		for _, target := range p.Targets {
			panel.Queries = append(panel.Queries, choices.Replace(target.Expr))
		}
		panels = append(panels, panel)
	}
	return panels
}

// AssertData waits until every query of some dashboards has data.
func (p *Prometheus) AssertData(t *testing.T, folder string, dashboards ...string) {
	t.Helper()
	for _, name := range dashboards {
		for _, panel := range Panels(t, folder, name) {
			for _, query := range panel.Queries {
				poll.True(t, name+", "+panel.Title+": "+query+" has data", func() bool {
					value, _, err := p.Query(t.Context(), query, time.Now())
					if err != nil {
						t.Fatalf("%s, %s: %s: %v", name, panel.Title, query, err)
					}
					vector, ok := value.(model.Vector)
					return ok && len(vector) > 0
				})
			}
		}
	}
}
