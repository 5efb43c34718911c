package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// byHand are the files beside internal/durable that rename or sync by hand, and why.
var byHand = map[string]string{
	"internal/hostbundle/write.go":        "a build's output: a layer gets its name once its digest is known, and a build is repeated",
	"plane/internal/statedir/status.go":   "after a crash of the machine the process that the file describes is gone",
	"plane/internal/planelog/planelog.go": "rotates logs: a line that is lost at a power cut was not promised",
	"plane/internal/sandbox/unit/log.go":  "rotates logs, as above",
	"plane/internal/sandbox/init.go":      "syncs all file systems before the host goes down",
}

// TestDurableFiles holds that internal/durable is where the product renames and syncs files: a
// rename without a sync of the directory, or ahead of one of the content, survives every test
// and no power cut.
func TestDurableFiles(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{"api", "cmd", "internal", "plane"} {
		root := filepath.Join("../..", folder)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
			switch {
			case name == "internal/durable", name == "internal/testenv", e.Name() == "testdata":
				return fs.SkipDir
			case e.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			}
			calls, err := renamesAndSyncs(path)
			if err != nil {
				return err
			}
			if byHand[name] != "" {
				used[name] = len(calls) > 0
				return nil
			}
			for _, call := range calls {
				t.Errorf("%s calls %s: use internal/durable, or name the file and the reason here", name, call)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, exception := range slices.Sorted(maps.Keys(byHand)) {
		if !used[exception] {
			t.Errorf("%s neither renames nor syncs any more: take it off the list", exception)
		}
	}
}

// renamesAndSyncs returns the calls of os.Rename, and of methods Rename with two arguments and
// Sync without any.
func renamesAndSyncs(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var calls []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, _ := selector.X.(*ast.Ident)
		switch {
		case of != nil && of.Name == "durable":
		case selector.Sel.Name == "Rename" && len(call.Args) == 2, selector.Sel.Name == "Sync" && len(call.Args) == 0:
			calls = append(calls, selector.Sel.Name)
		}
		return true
	})
	return calls, nil
}
