package imports

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/source"
)

// listenerPackage bounds the connections of a server.
const listenerPackage = source.Module + "/sdk/listener"

// elsewhere are the packages that open a socket and pass it on, or which nobody but its owner reaches, and why.
var elsewhere = map[string]string{
	"plane/internal/cli":          "passes its sockets to the API server and the bundle server of the plane; the proxy is for the plane's own controllers, in its network namespace",
	"plane/internal/network":      "opens sockets for plane/internal/cli, and for its forwarder and its doors, which limit them",
	"plane/internal/sandbox/unit": "the socket is root's, and inside a local host",
	"plane/internal/up":           "finds out whether a port is free",
	"plane/internal/capi":         "the webhooks listen on the loopback of the plane's network namespace",
	"nodebundle/echo":             "a program of pods for tests and the tutorial",
	"sdk/hooktest":                "for tests",
	"internal/testenv":            "for tests",
	"internal/testenv/shared":     "for tests",
}

// TestServersBoundTheirConnections holds that every http.Server of the product ends connections that say nothing, and
// that every file which opens a socket uses sdk/listener. A server without either works in every other test.
func TestServersBoundTheirConnections(t *testing.T) {
	tree, err := source.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	servers, used := 0, map[string]bool{}
	for folder, p := range tree.Packages {
		if folder == "test" || strings.HasPrefix(folder, "test/") {
			continue
		}
		for _, file := range p.Files {
			f, opens, bounds := serverFile{file}, "", false
			for _, imported := range file.Imports {
				bounds = bounds || imported == listenerPackage
			}
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if f.is(n.Type, "net/http", "Server") {
						servers++
						for _, field := range []string{"ReadHeaderTimeout", "IdleTimeout"} {
							if !sets(n, field) {
								t.Errorf("%s: an http.Server without %s keeps connections that say nothing", tree.Files.Position(n.Pos()), field)
							}
						}
					}
					if f.is(n.Type, "sigs.k8s.io/controller-runtime/pkg/metrics/server", "Options") && !literal(n, "BindAddress", `"0"`) ||
						f.is(n.Type, "sigs.k8s.io/controller-runtime", "Options") && sets(n, "HealthProbeBindAddress") && !literal(n, "HealthProbeBindAddress", `"0"`) {
						opens = tree.Files.Position(n.Pos()).String()
					}
				case *ast.CallExpr:
					if f.implicit(n) {
						t.Errorf("%s: name an http.Server, with its timeouts", tree.Files.Position(n.Pos()))
					}
					if f.opens(n) {
						opens = tree.Files.Position(n.Pos()).String()
					}
				}
				return true
			})
			switch {
			case opens == "" || bounds:
			case elsewhere[folder] != "":
				used[folder] = true
			default:
				t.Errorf("%s: whoever reaches a socket can keep others out: use sdk/listener in this file, or name the package and the reason here", opens)
			}
		}
	}
	if servers < 8 {
		t.Errorf("only %d servers were found", servers)
	}
	for _, folder := range slices.Sorted(maps.Keys(elsewhere)) {
		if !used[folder] {
			t.Errorf("%s opens no socket any more: take it off the list", folder)
		}
	}
}

type serverFile struct{ *source.File }

// is says whether an expression is a name of a package.
func (f serverFile) is(e ast.Expr, imported, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && f.Imports[of.Name] == imported
}

// implicit says whether a call serves HTTP without an http.Server, or with one that has no timeouts.
func (f serverFile) implicit(call *ast.CallExpr) bool {
	if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "new" {
		return f.is(call.Args[0], "net/http", "Server")
	}
	return slices.ContainsFunc([]string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"}, func(name string) bool { return f.is(call.Fun, "net/http", name) })
}

// opens says whether a call opens a socket that accepts connections: by a function of net and the like, or a method
// such as that of net.ListenConfig.
func (f serverFile) opens(call *ast.CallExpr) bool {
	for _, opener := range [][2]string{
		{"net", "Listen"}, {"net", "ListenTCP"}, {"net", "ListenUnix"}, {"net", "FileListener"}, {"crypto/tls", "Listen"}, {"sigs.k8s.io/controller-runtime/pkg/webhook", "NewServer"},
	} {
		if f.is(call.Fun, opener[0], opener[1]) {
			return true
		}
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (selector.Sel.Name == "Listen" && len(call.Args) == 3 || strings.HasPrefix(selector.Sel.Name, "ListenAndServe"))
}

// sets says whether a composite literal has a value for a field.
func sets(lit *ast.CompositeLit, field string) bool { return value(lit, field) != nil }

// literal says whether the value of a field is the one that is written in the source.
func literal(lit *ast.CompositeLit, field, want string) bool {
	basic, ok := value(lit, field).(*ast.BasicLit)
	return ok && basic.Value == want
}

func value(lit *ast.CompositeLit, field string) ast.Expr {
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == field {
				return pair.Value
			}
		}
	}
	return nil
}
