package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/slipway-dev/slipway/internal/host"
)

// TestEveryStateFileIsListed: `slipway-agent uninstall` removes what is listed.
func TestEveryStateFileIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "statefiles.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.Concat(StateFiles, StateDirectories)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			if name, err := strconv.Unquote(value.Value); err != nil || !slices.Contains(listed, name) {
				t.Errorf("%s (%s) is not listed: %v", spec.Names[0], value.Value, err)
			}
		}
		return true
	})
	if handedOverFile != host.HomeFile {
		t.Errorf("the agent writes %s, not %s", host.HomeFile, handedOverFile)
	}
}
