package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A change affects an area through imports of tests and programs, through files that are no Go
// code, and through what modules require; and no other area.
func TestAffected(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                       "module github.com/slipway-dev/slipway\n\ngo 1.26\n",
		"internal/agent/vip/vip.go":    "package vip\n",
		"internal/agent/vip/a_test.go": "package vip\n\nimport _ \"github.com/slipway-dev/slipway/test/fake\"\n",
		"internal/vip/deep_test.go":    "package vip\n\nfunc f() { level.Deep(t) }\n",
		"test/fake/fake.go":            "//go:build never\n\npackage fake\n",
		"test/vm/vm_test.go":           "package vm\n",
		"cmd/slipway-agent/main.go":    "package main\n\nimport _ \"github.com/slipway-dev/slipway/internal/agent/vip\"\n",
		"sdk/go.mod":                   "module github.com/slipway-dev/slipway/sdk\n",
		"sdk/sdk.go":                   "package sdk\n",
		"docs/README.md":               "# Title\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	const programs = "test-alone test-e2e test-packages test-modules race-concurrent test-machine test-upstream-fastest"
	for file, want := range map[string]string{
		"docs/README.md":                  "",
		"sdk/sdk.go":                      "test-modules race-concurrent",
		"sdk/testdata/body.json":          "test-modules race-concurrent",
		"test/vm/qemu.conf":               "test-machine",
		"internal/vip/deep_test.go":       "test-packages",
		"internal/agent/vip/vip.go":       programs,
		"internal/agent/vip/a/page.html":  programs,
		"test/fake/fake.go":               programs,
		"nodebundle/runc/go.mod":          namesOf(areas),
		"nodebundle/runc/main.patch":      "test-alone test-e2e test-upstream-fastest",
		"internal/unknown/package/new.go": "",
	} {
		if got := namesOf(tree.affected([]string{file})); got != want {
			t.Errorf("a change of %s affects %q, want %q", file, got, want)
		}
	}
}

// The table names what is there: make targets, tests and programs.
func TestAreasAreThere(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := readTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		if !strings.Contains(string(makefile), "\n"+a.name+":") && !strings.Contains(string(makefile), " "+a.name+":") {
			t.Errorf("the Makefile has no target %s", a.name)
		}
		for _, dir := range append(a.packages, a.programs...) {
			if dir == deepTests {
				continue
			}
			if _, err := os.Stat(filepath.Join("../..", strings.TrimSuffix(dir, "/..."))); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
		if len(tree.depends(a)) < 2 {
			t.Errorf("%s depends on next to nothing: %v", a.name, tree.depends(a))
		}
	}
	if !strings.Contains(string(makefile), "\nDEEP_AREAS := "+namesOf(areas)+"\n") {
		t.Errorf("DEEP_AREAS of the Makefile is another list than %s", namesOf(areas))
	}
}

func TestResult(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Hour)
	write := func(name, text string, at time.Time) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("before.json", `{"Action":"fail","Package":"a","Test":"TestOfAnotherRun"}`+"\n", began.Add(-time.Minute))
	write("now.json", `{"Action":"pass","Package":"a","Test":"TestA"}
what a program printed
{"Action":"fail","Package":"a","Test":"TestB"}
{"Action":"skip","Package":"a","Test":"TestC"}
{"Action":"fail","Package":"a"}
{"Action":"pass","Package":"b"}
`, began.Add(time.Minute))
	r := &result{Date: began}
	if err := r.count(dir); err != nil {
		t.Fatal(err)
	}
	if want := (&result{Date: began, Passed: 1, Skipped: 1, Failed: []string{"a", "a TestB"}}); !reflect.DeepEqual(r, want) {
		t.Errorf("result: %+v, want %+v", r, want)
	}
}

// CONTRIBUTING.md has a row for each area, as the table of the code says it.
func TestTableOfAreas(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../..", tablePage))
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _, err := cutTable(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if want := table(rows, nil); rows != want {
		t.Errorf("the table of %s is stale, run `go run ./test/areas record`:\n%s\nwant:\n%s", tablePage, rows, want)
	}
}

// A green run of a commit is recorded; one that failed, or had changes beside, is not.
func TestGreenRunsAreRecorded(t *testing.T) {
	at := time.Date(2026, 11, 28, 23, 30, 0, 0, time.UTC)
	green := result{Area: areas[0].name, Commit: "0123456789abcdef", Date: at, OK: true, Passed: 12, Seconds: 61}
	failed, dirty := green, green
	failed.OK, failed.Area = false, areas[1].name
	dirty.Dirty, dirty.Area = true, areas[2].name
	rows := strings.Split(table("| `"+areas[1].name+"` | needs | takes | 2026-01-01, 1234567 |\n", []result{green, failed, dirty}), "\n")
	for i, want := range []string{"2026-11-28, 01234567: 12 tests in 2 min", "2026-01-01, 1234567", "never"} {
		if !strings.HasSuffix(rows[i], "| "+want+" |") {
			t.Errorf("row %q, want %q at its end", rows[i], want)
		}
	}
}
