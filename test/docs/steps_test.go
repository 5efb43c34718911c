package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// The table of steps in the manual of lifecycle policies is written from their kinds.
func TestStepsReference(t *testing.T) {
	var table strings.Builder
	for _, kind := range step.Kinds() {
		done, workload := kind.Manual()
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", kind.Name(), done, workload)
	}
	compareTable(t, "docs/lifecycle.md", "| kind | is done when | on the workload cluster |\n|---|---|---|\n", table.String())
}
