package upstream

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	page        = "../../../docs/upstream-e2e.md"
	specsModule = "sigs.k8s.io/cluster-api/test"
)

// row is one of the page's table: what became of a spec.
type row struct{ spec, result, time, remark string }

// results are what a row may say. Specs with the first two are part of the suite.
var results = []string{"passes", "fails", "passed by hand", "failed by hand", "cannot run", "not tried"}

// TestTable holds the page against upstream's source and against the suite: a release of
// upstream's with a new spec, and a spec that is run or not run and said to be otherwise.
func TestTable(t *testing.T) {
	dir, err := moduleDir(specsModule)
	if err != nil {
		t.Fatal(err)
	}
	exported := exportedSpecs(t, filepath.Join(dir, "e2e"))
	if len(exported) < 20 {
		t.Fatalf("%d exported specs in %s: they are looked for in the wrong place", len(exported), dir)
	}
	rows := table(t)
	run := suiteSpecs(t)
	for _, spec := range exported {
		if _, ok := rows[spec]; !ok {
			t.Errorf("%s: no row for %s, which upstream exports: run it (specs_test.go), or say what it lacks", page, spec)
		}
	}
	for _, r := range rows {
		if !slices.Contains(exported, r.spec) {
			t.Errorf("%s: %s is no spec that upstream exports", page, r.spec)
		}
		if !slices.Contains(results, r.result) {
			t.Errorf("%s: result %q of %s, want one of %q", page, r.result, r.spec, results)
		}
		inSuite := slices.Contains(results[:2], r.result)
		if inSuite != slices.Contains(run, r.spec) {
			t.Errorf("%s: %s is said to be %q; part of the suite: %v", page, r.spec, r.result, !inSuite)
		}
		if passes := r.result == "passes"; passes == (r.time == "") && r.result != "passed by hand" {
			t.Errorf("%s: %s is said to be %q, with time %q", page, r.spec, r.result, r.time)
		}
		if r.result != "passes" && r.remark == "" {
			t.Errorf("%s: %s is said to be %q, and not why", page, r.spec, r.result)
		}
	}
}

// exportedSpecs are the functions of upstream's that a suite of another provider calls.
func exportedSpecs(t *testing.T, dir string) []string {
	t.Helper()
	files := parse(t, dir, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
	var specs []string
	for _, file := range files {
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && f.Name.IsExported() && strings.HasSuffix(f.Name.Name, "Spec") {
				specs = append(specs, f.Name.Name)
			}
		}
	}
	return specs
}

// suiteSpecs are those that the suite runs. Each has its name as its first label, by which
// it is chosen.
func suiteSpecs(t *testing.T) []string {
	t.Helper()
	specs := map[string]bool{}
	for _, file := range parse(t, ".", func(name string) bool { return name == "specs_test.go" }) {
		ast.Inspect(file, func(node ast.Node) bool {
			describe, ok := node.(*ast.CallExpr)
			if !ok || name(describe.Fun) != "Describe" {
				return true
			}
			label, called := "", ""
			ast.Inspect(describe, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				switch {
				case !ok:
				case name(call.Fun) == "Label" && label == "":
					label, _ = strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				case strings.HasPrefix(name(call.Fun), "e2e."):
					called = strings.TrimPrefix(name(call.Fun), "e2e.")
				}
				return true
			})
			if called != label+"Spec" {
				t.Errorf("specs_test.go: %s has label %q, want %q", called, label, strings.TrimSuffix(called, "Spec"))
			}
			specs[called] = true
			return false
		})
	}
	return slices.Collect(maps.Keys(specs))
}

// name is that of a function as it is called.
func name(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return ""
}

func parse(t *testing.T, dir string, want func(name string) bool) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || filepath.Ext(e.Name()) != ".go" || !want(e.Name())
	})
	files := make([]*ast.File, 0, len(entries))
	for _, e := range entries {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// rowPattern is a row whose first cell is the name of a spec.
var rowPattern = regexp.MustCompile("(?m)^\\| `(\\w+Spec)` \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")

func table(t *testing.T) map[string]row {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for _, m := range rowPattern.FindAllStringSubmatch(string(data), -1) {
		r := row{m[1], strings.TrimSpace(m[2]), strings.TrimSpace(m[3]), strings.TrimSpace(m[4])}
		if _, twice := rows[r.spec]; twice {
			t.Errorf("%s: two rows for %s", page, r.spec)
		}
		rows[r.spec] = r
	}
	return rows
}
