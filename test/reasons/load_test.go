package reasons

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/slipway-dev/slipway/"
)

// source is one package with the types of all that its files say.
type source struct {
	path  string
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// loader reads packages of this module by their sources, and what they import from what the
// compiler wrote about it.
type loader struct {
	fset     *token.FileSet
	exported map[string]string
	packages []source
}

// load reads the packages of patterns without their tests.
func load(t *testing.T, patterns ...string) *loader {
	t.Helper()
	workspace, err := filepath.Abs(root + "/hack/root.work")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly"}, patterns...)...)
	list.Dir, list.Stderr = root, os.Stderr
	list.Env = append(list.Environ(), "GOWORK="+workspace)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	l := &loader{fset: token.NewFileSet(), exported: map[string]string{}}
	parsed := map[string][]*ast.File{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		l.exported[listed.ImportPath] = listed.Export
		if listed.DepOnly {
			continue
		}
		for _, name := range listed.GoFiles {
			file, err := parser.ParseFile(l.fset, filepath.Join(listed.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed[listed.ImportPath] = append(parsed[listed.ImportPath], file)
		}
	}
	for path, files := range parsed {
		l.check(t, path, files)
	}
	return l
}

func (l *loader) check(t *testing.T, path string, files []*ast.File) {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(l.exported[path])
	})}
	pkg, err := config.Check(path, l.fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	l.packages = append(l.packages, source{path, files, pkg, info})
}
