package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/registry"
)

// docs/sdk.md says in a column each what a plane and what other management clusters do, of all by which a plane
// selects objects and by which extensions do so everywhere.
func TestPlaneAndElsewhere(t *testing.T) {
	page, err := os.ReadFile("../../docs/sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## On a plane, and elsewhere\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(section, "\n| | on a plane | elsewhere (") {
		t.Error("docs/sdk.md has no table with a column each")
	}
	for _, how := range []string{"`namespaceSelector`", "`" + registry.ObjectSelectorAnnotation + "`", "`" + registry.MatchConditionAnnotation + "`", "`extension.WithObjectSelector`", "`extension.WithMatch`"} {
		row := ""
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "| ") && strings.Contains(line, how) {
				row = line
			}
		}
		if strings.Count(row, "|") != 4 {
			t.Errorf("the table of docs/sdk.md has no row of three columns for %s", how)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "](docs/sdk.md#on-a-plane-and-elsewhere)") {
		t.Error("README.md does not lead to that table")
	}
}
