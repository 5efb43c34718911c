package imports

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestSelfContained holds that CI takes no result of a test from the build cache that depends
// on a program: the go command does not know what that one did.
func TestSelfContained(t *testing.T) {
	starts := map[string]string{
		"internal/agent/hostos/command": "it starts programs",
		"internal/agent/ondemand":       "what it imports starts programs",
		"internal/controller/host":      "its tests start an API server",
		"internal/hookdocs":             "its tests, in a package of their own, run the go command",
	}
	patterns := []string{module + "internal/host", module + "sdk/hook"}
	want := slices.Clone(patterns)
	for pkg := range starts {
		patterns = append(patterns, module+pkg)
	}
	cmd := exec.Command("hack/selfcontained.sh", patterns...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	for _, pkg := range got {
		if why := starts[strings.TrimPrefix(pkg, module)]; why != "" {
			t.Errorf("results of %s may be reused, and %s", pkg, why)
		}
	}
	for _, pkg := range want {
		if !slices.Contains(got, pkg) {
			t.Errorf("results of %s may not be reused, and it starts nothing", pkg)
		}
	}
}
