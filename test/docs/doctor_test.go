package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/doctor"
)

// The table of findings in the index of troubleshooting is written from the checks of
// `slipway doctor`, in their words and their order.
func TestFindingsReference(t *testing.T) {
	data, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	const head = "| finding | means | do |\n|---|---|---|\n"
	before, rest, found := strings.Cut(page, head)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table of findings", troubleshooting)
	}
	var table strings.Builder
	for _, check := range doctor.Checks() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", check.Name, check.Means, check.Remedy)
	}
	compare(t, "docs/troubleshooting.md", []byte(before+head+table.String()+"\n"+after))
}
