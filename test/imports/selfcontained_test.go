package imports

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	got := selfContained(t, patterns...)
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

// upwards is how a test names a file above its folder.
var upwards = regexp.MustCompile(`"\.\./|"\.\.", "\.\."`)

// TestSelfContainedReadsItsModule holds that none of these reads files of another module by
// their path: the go command compares those of the own module only, and that of the root has
// the others within.
func TestSelfContainedReadsItsModule(t *testing.T) {
	looked := 0
	for _, pkg := range selfContained(t, module+"plane/...", module+"sdk/...") {
		files, err := filepath.Glob(filepath.Join("../..", strings.TrimPrefix(pkg, module), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			looked++
			if path := upwards.Find(text); path != nil {
				t.Errorf("%s has the path %s: embed the file, or read what the module has of it", file, path)
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d files of tests", looked)
	}
}

// selfContained are those of the packages that the script takes.
func selfContained(t *testing.T, patterns ...string) []string {
	t.Helper()
	cmd := exec.Command("hack/selfcontained.sh", patterns...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
