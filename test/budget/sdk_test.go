package budget

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/slipway-dev/slipway/"

var (
	// runtimeOfSDK is what serves and calls hooks, and runtimeOfUpstream the same of Cluster API, by
	// its modules.
	runtimeOfSDK      = []string{"sdk/client", "sdk/extension", "sdk/hook", "sdk/internal/certs", "sdk/internal/wire", "sdk/registry"}
	runtimeOfUpstream = map[string][]string{
		"sigs.k8s.io/cluster-api":     {"exp/runtime/client", "exp/runtime/server", "internal/runtime/client", "internal/runtime/metrics", "internal/runtime/registry"},
		"sigs.k8s.io/cluster-api/api": {"runtime/catalog"},
	}
	// forTests are packages that only tests use.
	forTests = []string{"sdk/hooktest"}
)

// countSDK compares the runtime of the SDK with upstream's, and counts its exported functions that
// neither other code nor an example calls.
func countSDK(t *testing.T, now figures) {
	t.Helper()
	own, upstream := 0, 0
	for _, folder := range runtimeOfSDK {
		own += linesOf(t, filepath.Join(root, folder))
	}
	for module, folders := range runtimeOfUpstream {
		command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
		command.Dir = root
		dir, err := command.Output()
		if err != nil {
			t.Fatalf("look for %s: %v", module, err)
		}
		for _, folder := range folders {
			upstream += linesOf(t, filepath.Join(strings.TrimSpace(string(dir)), folder))
		}
	}
	now["sdk runtime, percent of upstream's lines"] = (own*100 + upstream - 1) / upstream
	exported, used := map[string]bool{}, map[string]bool{}
	walk(t, func(name string, data []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
		if within(folder, "sdk") && !test && !strings.Contains(folder+"/", "/internal/") && file.Name.Name != "main" {
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
					exported[folder+"."+f.Name.Name] = true
				}
			}
		}
		noteUses(file, test, used)
	})
	unused := 0
	for function := range exported {
		if !used[function] {
			unused++
			t.Logf("neither other code nor an example calls %s", function)
		}
	}
	now["sdk functions without user or example"] = unused
}

// linesOf counts the code of a folder.
func linesOf(t *testing.T, folder string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no code: %v", folder, err)
	}
	lines := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && !generated.Match(data) {
			lines += codeLines(data)
		}
	}
	return lines
}

// noteUses notes which functions of the SDK a file uses: of a test only its examples do.
func noteUses(file *ast.File, test bool, used map[string]bool) {
	folders := map[string]string{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		folder, ours := strings.CutPrefix(imported, module)
		if err != nil || !ours || !within(folder, "sdk") {
			continue
		}
		name := path.Base(folder)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		folders[name] = folder
	}
	for _, declaration := range file.Decls {
		f, function := declaration.(*ast.FuncDecl)
		example := function && strings.HasPrefix(f.Name.Name, "Example")
		ast.Inspect(declaration, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && folders[pkg.Name] != "" && (!test || example || slices.Contains(forTests, folders[pkg.Name])) {
					used[folders[pkg.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
}
