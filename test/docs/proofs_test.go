package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	// named is a package, or a test, in the column of tests.
	named = regexp.MustCompile("`([\\w/]+)`|\\b((?:Test|Fuzz)[A-Z]\\w*)")
)

// declaredTests are the tests of each folder.
func declaredTests(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for path, text := range sources(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		for _, match := range declaration.FindAllStringSubmatch(text, -1) {
			if match[1] != "TestMain" {
				all[folder] = append(all[folder], match[1])
			}
		}
	}
	return all
}

// foldersOf are those that a page means by the end of their path.
func foldersOf(declared map[string][]string, name string) []string {
	var found []string
	for folder := range declared {
		if folder == name || strings.HasSuffix(folder, "/"+name) {
			found = append(found, folder)
		}
	}
	return found
}

// The page of the SDK tells what is proved where: each package that it names has tests,
// each test is in the package before it, and no test of the SDK is missing.
func TestProofsOfTheSDK(t *testing.T) {
	declared := declaredTests(t)
	told := map[string]bool{}
	var section string
	for _, l := range read(t, filepath.Join(root, "docs", "sdk.md")).lines {
		if heading, ok := strings.CutPrefix(l.text, "## "); ok {
			section = heading
		}
		cells := strings.Split(strings.Trim(l.text, "| "), " | ")
		if section != "What is proved where" || len(cells) < 2 {
			continue
		}
		var folders []string
		for _, match := range named.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if name := match[1]; name != "" {
				if folders = foldersOf(declared, name); len(folders) == 0 {
					t.Errorf("docs/sdk.md:%d: there is no package %s with tests", l.number, name)
				}
				continue
			}
			in := slices.IndexFunc(folders, func(folder string) bool { return slices.Contains(declared[folder], match[2]) })
			if in < 0 {
				t.Errorf("docs/sdk.md:%d: %s is not in %s", l.number, match[2], strings.Join(folders, ", "))
				continue
			}
			told[folders[in]+" "+match[2]] = true
		}
	}
	tests := 0
	for folder, names := range declared {
		if folder != "sdk" && !strings.HasPrefix(folder, "sdk/") {
			continue
		}
		for _, name := range names {
			tests++
			if !told[folder+" "+name] {
				t.Errorf("docs/sdk.md does not tell what %s of %s proves", name, folder)
			}
		}
	}
	if tests < 120 {
		t.Errorf("only %d tests of the SDK were found", tests)
	}
}
