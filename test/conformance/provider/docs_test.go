package provider_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/conformance/provider"
)

const root = "../../.."

// documents hold tables of what is promised and what proves it.
var documents = []string{"docs/contracts.md", "docs/hazards.md", "docs/sdk.md"}

var (
	separator = regexp.MustCompile(`^[\s|:-]+$`)
	// inRepository is a path in backticks, from the root of the repository.
	inRepository = regexp.MustCompile("`((?:api|config|internal|plane|release|templates|test|cmd|sdk)/[^`\\s]*)`")
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	declaration  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	ruleName     = regexp.MustCompile(`\b(InfraMachinePool|InfraMachine|InfraCluster|MachineHealthCheck|Hazards)/(\w+)`)
)

// TestDocumentsHold keeps the tables and the code together: no cell is empty, and
// each file, test and rule that a table names exists.
func TestDocumentsHold(t *testing.T) {
	tests := declaredTests(t)
	rules := map[string]bool{}
	for contract, list := range provider.Rules() {
		for _, rule := range list {
			rules[contract+"/"+rule.Name] = false
		}
	}
	for _, document := range documents {
		checkTests(t, document, tests)
		for number, row := range tableRows(t, document) {
			checkCells(t, document, number, row)
			for _, match := range inRepository.FindAllStringSubmatch(row, -1) {
				if found, err := filepath.Glob(filepath.Join(root, match[1])); err != nil || len(found) == 0 {
					t.Errorf("%s:%d: there is no %s", document, number, match[1])
				}
			}
			for _, name := range ruleName.FindAllString(row, -1) {
				if _, ok := rules[name]; !ok {
					t.Errorf("%s:%d: there is no rule %s", document, number, name)
				}
				rules[name] = true
			}
		}
	}
	for name, documented := range rules {
		if !documented {
			t.Errorf("no document names the rule %s", name)
		}
	}
}

// checkTests looks for what a document names, in its tables and beside them.
func checkTests(t *testing.T, document string, declared map[string]bool) {
	t.Helper()
	names := testName.FindAllString(read(t, document), -1)
	if len(names) < 30 {
		t.Errorf("%s names only %d tests", document, len(names))
	}
	for _, name := range names {
		if !declared[name] {
			t.Errorf("%s: there is no %s", document, name)
		}
	}
}

func read(t *testing.T, document string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func checkCells(t *testing.T, document string, number int, row string) {
	t.Helper()
	cells := strings.Split(strings.Trim(row, "| "), "|")
	for _, cell := range cells {
		if text := strings.ToLower(strings.TrimSpace(cell)); text == "" || text == "-" || strings.Contains(text, "not yet") {
			t.Errorf("%s:%d: a cell is %q in %s", document, number, text, row)
		}
	}
}

// tableRows returns the rows below the head of each table, by line number.
func tableRows(t *testing.T, document string) map[int]string {
	t.Helper()
	rows, body := map[int]string{}, false
	for i, line := range strings.Split(read(t, document), "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			body = false
		case separator.MatchString(line):
			body = true
		case body:
			rows[i+1] = line
		}
	}
	if len(rows) < 5 {
		t.Fatalf("%s has only %d rows", document, len(rows))
	}
	return rows
}

// declaredTests finds the test functions of every module of the repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, match := range declaration.FindAllSubmatch(data, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatalf("find the tests: %v", err)
	}
	return names
}
