package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What it writes is tested by internal/extensionproject and, outside of the repository,
// by test/outside.
func TestExtensionInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "here")
	printed, err := run(t, "extension", "init", "quota", "--dir", dir, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Directory string
		Files     []string
	}
	if err := json.Unmarshal([]byte(printed), &made); err != nil || made.Directory != dir || !slices.Contains(made.Files, "main.go") {
		t.Errorf("%v, printed %s", err, printed)
	}
	for _, path := range made.Files {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := run(t, "extension", "init", "quota", "--dir", dir); err == nil || !strings.Contains(err.Error(), dir+" is not empty") {
		t.Errorf("got %v", err)
	}
	t.Chdir(t.TempDir())
	printed, err = run(t, "extension", "init", "quota")
	if err != nil || !strings.Contains(printed, "main.go\n") || !strings.Contains(printed, "`cd quota && ") {
		t.Errorf("%v, printed %s", err, printed)
	}
	if _, err := run(t, "extension", "init", "other", "--hooks", "Bogus"); err == nil || !strings.Contains(err.Error(), "BeforeClusterCreate, ") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat("other"); !os.IsNotExist(err) {
		t.Errorf("a refusal leaves a folder: %v", err)
	}
}

func TestHooksAreCompleted(t *testing.T) {
	offered, err := run(t, "__complete", "extension", "init", "quota", "--hooks", "GeneratePatches,")
	if err != nil || !strings.Contains(offered, "GeneratePatches,DiscoverVariables\n") || strings.Contains(offered, "GeneratePatches,GeneratePatches\n") {
		t.Errorf("%v, offered %s", err, offered)
	}
}
