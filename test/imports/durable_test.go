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

// rule of calls that only internal/durable makes.
type callRule struct {
	// instead is what a message recommends.
	instead string
	// folders that it is about.
	folders []string
	// breaks says whether a call breaks the rule: of is the package or variable, empty for an expression.
	breaks func(of, method string, call *ast.CallExpr) bool
	// byHand are the files that make such calls, and why.
	byHand map[string]string
}

var callRules = map[string]callRule{
	// A rename without a sync of the directory, or ahead of one of the content, survives every test
	// and no power cut.
	"renames and syncs": {
		instead: "internal/durable", folders: []string{"api", "cmd", "internal", "plane"},
		breaks: func(of, method string, call *ast.CallExpr) bool {
			return of != "durable" && (method == "Rename" && len(call.Args) == 2 || method == "Sync" && len(call.Args) == 0)
		},
		byHand: map[string]string{
			"internal/hostbundle/write.go":       "a build's output: a layer gets its name once its digest is known, and a build is repeated",
			"plane/internal/statedir/status.go":  "after a crash of the machine the process that the file describes is gone",
			"plane/internal/statedir/log.go":     "rotates logs: a line that is lost at a power cut was not promised",
			"plane/internal/sandbox/unit/log.go": "rotates logs, as above",
			"plane/internal/sandbox/init.go":     "syncs all file systems before the host goes down",
		},
	},
	// By its path, a file is another one once a user has put a link there.
	"owners and modes by path": {
		instead: "durable.Dir, or Chown and Chmod of an open file", folders: []string{"api", "cmd", "internal", "plane"},
		breaks: func(of, method string, _ *ast.CallExpr) bool {
			return slices.Contains([]string{"os", "syscall", "unix"}, of) && slices.Contains([]string{"Chown", "Lchown", "Chmod", "Fchownat", "Fchmodat"}, method)
		},
		byHand: map[string]string{
			"plane/internal/localhost/store.go":     "copies devices and links, into a directory that only root can write to",
			"plane/internal/sandbox/unit/socket.go": "a socket cannot be opened; only root can write to its directory",
		},
	},
	// Bootstrap data and its reset reach into directories of users.
	"changes of the host by path": {
		instead: "durable.WithParent, WithTarget or WithDir",
		folders: []string{"internal/agent/effects/bootstrap", "internal/agent/effects/logins", "internal/agent/effects/reset"},
		breaks: func(of, method string, call *ast.CallExpr) bool {
			changes := of == "os" && slices.Contains([]string{"Create", "Link", "Mkdir", "MkdirAll", "OpenFile", "Remove", "RemoveAll", "Symlink", "Truncate", "WriteFile"}, method) ||
				of == "durable" && slices.Contains([]string{"Link", "Mkdir", "Remove", "RemoveAll", "Replace", "Stream", "Write", "WriteFrom", "WriteJSON"}, method)
			return changes && slices.ContainsFunc(call.Args, namesHost)
		},
		byHand: map[string]string{"internal/agent/effects/reset/settings.go": "settings of the kernel", "internal/agent/effects/reset/devices.go": "devices that the kernel removes"},
	},
}

// namesHost says whether an expression is a path of the host, as Root.Path returns it.
func namesHost(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		found = found || ok && selector.Sel.Name == "Path"
		return !found
	})
	return found
}

// TestDurableFiles checks that the product leaves to internal/durable what is easily done wrong with
// files.
func TestDurableFiles(t *testing.T) {
	for name, rule := range callRules {
		t.Run(name, func(t *testing.T) {
			used := map[string]bool{}
			for _, folder := range rule.folders {
				err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, e fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					file := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
					switch {
					case file == "internal/durable", file == "internal/testenv", e.Name() == "testdata":
						return fs.SkipDir
					case e.IsDir(), !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
						return nil
					}
					calls, err := rule.calls(path)
					if rule.byHand[file] != "" {
						used[file] = len(calls) > 0
						return err
					}
					for _, call := range calls {
						t.Errorf("%s calls %s: use %s, or name the file and the reason here", file, call, rule.instead)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, exception := range slices.Sorted(maps.Keys(rule.byHand)) {
				if !used[exception] {
					t.Errorf("%s does not do that any more: remove it from the list", exception)
				}
			}
		})
	}
}

// calls returns those that break the rule in a file.
func (r callRule) calls(path string) ([]string, error) {
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
		of := ""
		if ident, ok := selector.X.(*ast.Ident); ok {
			of = ident.Name
		}
		if r.breaks(of, selector.Sel.Name, call) {
			calls = append(calls, strings.TrimPrefix(of+"."+selector.Sel.Name, "."))
		}
		return true
	})
	return calls, nil
}
