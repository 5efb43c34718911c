package golden

import (
	"go/ast"
	"testing"
)

// Every mutation that a test must notice: none gets lost when tests move or merge. What became of
// them says `make test-mutation`.
func TestMutations(t *testing.T) {
	tree, err := read()
	if err != nil {
		t.Fatal(err)
	}
	pkg := tree.Packages["test/conformance/mutation"]
	if pkg == nil {
		t.Fatal("the table of mutations has moved")
	}
	found := map[string]bool{}
	for _, file := range pkg.Files {
		ast.Inspect(file.Syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]string{}
			for _, e := range literal.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					if name, ok := pair.Key.(*ast.Ident); ok {
						fields[name.Name], _ = textOf(pair.Value)
					}
				}
			}
			if fields["Breaks"] != "" {
				found[fields["Rule"]+": "+fields["Breaks"]] = true
			}
			return true
		})
	}
	compareSet(t, "mutations.txt", found, 90)
}
