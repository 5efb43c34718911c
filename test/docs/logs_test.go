package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/test/logs"
)

var (
	// references are what the value of a key that is a kind is made by.
	references  = map[string]bool{"klog.KObj": true, "klog.KRef": true, "slog.Group": true}
	aLogger     = regexp.MustCompile(`(?i)(^|\.)(log|logger|klog|log\(\)|loggerfrom\(\)|fromcontext\(\)|background\(\))$`)
	logFunction = map[string]bool{"Info": true, "Warn": true, "Error": true, "Debug": true, "With": true, "WithValues": true, "InfoS": true, "ErrorS": true}
)

// TestLogKeys holds the keys of every log line of this repository to the set of
// docs/observability.md: an object is named by its kind and told with its namespace, and
// nothing has two names. Lines that programs wrote are judged by test/logs.
func TestLogKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, root := range []string{"cmd", "internal", "plane"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					for key, value := range keysOf(call) {
						seen[key] = true
						if wrong := judgeKey(key, value); wrong != "" {
							t.Errorf("%s: key %q: %s", set.Position(call.Pos()), key, wrong)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"Host", "HostMachine", "Cluster", "LifecyclePolicy", "LifecycleRun", "claim", "operation", "phase", "step", "reason", "err"} {
		if !seen[key] || !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("key %s: used %t, and documented %t", key, seen[key], strings.Contains(string(page), "`"+key+"`"))
		}
	}
}

// judgeKey holds sources to the keys to which test/logs holds lines.
func judgeKey(key, value string) string {
	if wrong := logs.Key(key); wrong != "" {
		return wrong
	}
	if logs.IsKind(key) && !references[value] {
		return "is a kind: tell the object by klog.KObj, klog.KRef or slog.Group, with its namespace"
	}
	return ""
}

// keysOf are the keys of a call that logs, with the function that makes each value, if one does.
func keysOf(call *ast.CallExpr) map[string]string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !logFunction[selector.Sel.Name] || !aLogger.MatchString(text(selector.X)) {
		return nil
	}
	args := call.Args
	if !strings.HasPrefix(selector.Sel.Name, "With") {
		if len(args) > 0 && !isString(args[0]) && strings.HasPrefix(selector.Sel.Name, "Error") {
			args = args[1:] // the error of logr and klog
		}
		if len(args) == 0 {
			return nil
		}
		args = args[1:] // the message
	}
	keys := map[string]string{}
	for i := 0; i < len(args); {
		key := args[i]
		var value ast.Expr
		if group, ok := key.(*ast.CallExpr); ok && text(group.Fun) == "slog.Group" {
			key, value, i = group.Args[0], group, i+1
		} else if i+1 < len(args) {
			value, i = args[i+1], i+2
		} else {
			return keys
		}
		name, ok := literal(key)
		if !ok {
			continue
		}
		keys[name] = ""
		if made, ok := value.(*ast.CallExpr); ok {
			keys[name] = text(made.Fun)
		}
	}
	return keys
}

func isString(e ast.Expr) bool {
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return isString(sum.X) || isString(sum.Y)
	}
	_, ok := literal(e)
	return ok
}

func literal(e ast.Expr) (string, bool) {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(basic.Value)
	return s, err == nil && s != ""
}

// text of what is called, without arguments.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return text(e.Fun) + "()"
	}
	return ""
}
