package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/doctor"
)

// The findings of `slipway doctor` are in the index of troubleshooting, in the words and the
// order of the checks, and nothing else is.
func TestFindings(t *testing.T) {
	var want strings.Builder
	want.WriteString("| finding | means | do |\n|---|---|---|\n")
	for _, check := range doctor.Checks() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", check.Name, check.Means, check.Remedy)
	}
	var got strings.Builder
	inside := false
	for _, l := range read(t, troubleshooting).lines {
		if strings.HasPrefix(l.text, "## ") {
			inside = l.text == "## What slipway doctor finds"
		}
		if inside && strings.HasPrefix(l.text, "|") {
			got.WriteString(l.text + "\n")
		}
	}
	if got.String() != want.String() {
		t.Errorf("docs/troubleshooting.md, \"What slipway doctor finds\", has\n%s\nwant\n%s", got.String(), want.String())
	}
}
