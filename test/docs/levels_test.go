package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// proof is a test or a rule of the conformance suite in a table, with the mark of the deep suite.
var proof = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*(?:/[\w.-]*\w)?|(?:InfraMachinePool|InfraMachine|InfraCluster|MachineHealthCheck|Hazards)/\w+)( \(deep\))?`)

// The tables of what is promised say of each test and rule whether it is one of the gate or of the
// deep suite: a row all of whose proofs are deep is not proved by the gate.
func TestProofsTellTheirLevel(t *testing.T) {
	deep, gate := deepTests(t), map[string]bool{}
	for contract, rules := range provider.Rules() {
		for _, rule := range rules {
			name := contract + "/" + rule.Name
			gate[name] = provider.InGate(contract, rule.Name)
			deep[name] = !gate[name]
		}
	}
	marked := 0
	for _, path := range []string{"docs/contracts.md", "docs/hazards.md"} {
		page := read(t, filepath.Join(root, filepath.FromSlash(path)))
		lines := make([]string, 0, len(page.lines))
		for _, l := range page.lines {
			want := l.text
			if strings.HasPrefix(l.text, "|") {
				want = proof.ReplaceAllStringFunc(l.text, func(found string) string {
					name := strings.TrimSuffix(found, " (deep)")
					if test, _, _ := strings.Cut(name, "/"); deep[name] || deep[test] {
						marked++
						name += " (deep)"
					}
					return name
				})
			}
			if want != l.text && !*write {
				t.Errorf("%s:%d: which proofs are of the deep suite alone is wrong (`go test ./test/docs -run Level -args -write` mends it):\n%s", path, l.number, want)
			}
			lines = append(lines, want)
		}
		if *write {
			if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(path)), []byte(strings.TrimRight(strings.Join(lines, "\n"), "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if marked < 20 {
		t.Errorf("only %d proofs of the deep suite were found", marked)
	}
}

// deepTests are the tests that only the deep suite runs: each one of that name begins with
// level.Deep, itself or by a helper of its package, or is in a package that no gate has.
func deepTests(t *testing.T) map[string]bool {
	t.Helper()
	byFolder, files := map[string][]*ast.FuncDecl{}, token.NewFileSet()
	for path, text := range sources(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				byFolder[filepath.ToSlash(filepath.Dir(path))] = append(byFolder[filepath.ToSlash(filepath.Dir(path))], f)
			}
		}
	}
	deep := map[string]bool{}
	for folder, functions := range byFolder {
		skips := map[string]bool{"level.Deep": true}
		for range functions {
			before := len(skips)
			for _, f := range functions {
				if f.Recv == nil && callsOne(f.Body, skips) {
					skips[f.Name.Name] = true
				}
			}
			if len(skips) == before {
				break
			}
		}
		for _, f := range functions {
			name := f.Name.Name
			if f.Recv != nil || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			is := skips[name] || slices.Contains([]string{"test/vm", "test/chaos", "test/e2e/upstream"}, folder)
			if other, known := deep[name]; known {
				is = is && other
			}
			deep[name] = is
		}
	}
	return maps.Collect(func(yield func(string, bool) bool) {
		for name, is := range deep {
			if is && !yield(name, true) {
				return
			}
		}
	})
}

// callsOne reports whether a statement of the function itself, not one within a condition or a
// closure, calls one of the names.
func callsOne(body *ast.BlockStmt, names map[string]bool) bool {
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		var expression ast.Expr
		switch s := s.(type) {
		case *ast.ExprStmt:
			expression = s.X
		case *ast.AssignStmt:
			expression = s.Rhs[0]
		default:
			return false
		}
		call, ok := expression.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			return names[f.Name]
		case *ast.SelectorExpr:
			of, ok := f.X.(*ast.Ident)
			return ok && names[of.Name+"."+f.Sel.Name]
		}
		return false
	})
}
