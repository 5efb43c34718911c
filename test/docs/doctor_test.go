package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/doctor"
)

// The table of findings in the index of troubleshooting is written from the checks of
// `slipway doctor`, in their words and their order.
func TestFindingsReference(t *testing.T) {
	var table strings.Builder
	for _, check := range doctor.Checks() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", check.Name, check.Means, check.Remedy)
	}
	compareTable(t, "docs/troubleshooting.md", "| finding | means | do |\n|---|---|---|\n", table.String())
}

// compareTable compares, or writes, the rows below the head of a table of a page.
func compareTable(t *testing.T, name, head, rows string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), head)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table with the head %q", name, head)
	}
	compare(t, name, []byte(before+head+rows+"\n"+after))
}
