package golden

import (
	"fmt"
	"go/ast"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/testenv/source"
)

// outputs are the types that commands print with `-o json`, as folder.Type, or
// folder.function.variable for one without a name. A command without one prints objects of
// Kubernetes, or a document that has a reference of its own.
var outputs = map[string]string{
	"slipway approve":               "internal/cli.decided",
	"slipway bundle list":           "[]internal/cli.bundleRow",
	"slipway bundle load":           "[]internal/cli.bundleRow",
	"slipway check extension":       "internal/cli.reportResult.out",
	"slipway check provider":        "internal/providercheck.Result",
	"slipway check upgrade":         "internal/cli.upgradeResult.out",
	"slipway check upgrade CLUSTER": "internal/cli.clusterUpgrade",
	"slipway cluster create":        "[]internal/clusters.State",
	"slipway cluster describe":      "internal/status.Tree",
	"slipway cluster get":           "[]internal/clusters.State",
	"slipway cluster reboot":        "internal/cli.rebootRound",
	"slipway cluster scale":         "[]internal/clusters.State",
	"slipway cluster upgrade":       "[]internal/clusters.State",
	"slipway doctor":                "internal/doctor.Report",
	"slipway events":                "[]internal/cli.eventRow",
	"slipway extension init":        "internal/cli.projectResult.out",
	"slipway host add":              "[]internal/provision.Result",
	"slipway host approve":          "[]internal/cli.approvedHost",
	"slipway host adopt":            "[]internal/cli.requestedHost",
	"slipway host clear-quarantine": "[]internal/cli.requestedHost",
	"slipway host reset":            "[]internal/cli.requestedHost",
	"slipway host cordon":           "[]internal/cli.requestedHost",
	"slipway host uncordon":         "[]internal/cli.requestedHost",
	"slipway host describe":         "internal/cli.described",
	"slipway host evacuate":         "[]internal/cli.requestedHost",
	"slipway host reboot":           "[]internal/cli.requestedHost",
	"slipway host replace":          "[]internal/cli.requestedHost",
	"slipway host assign":           "[]internal/change.Assigned",
	"slipway host list":             "[]internal/cli.hostRow",
	"slipway host remove":           "[]internal/provision.Result",
	"slipway lifecycle approve":     "internal/cli.decided",
	"slipway lifecycle explain":     "internal/runs.Explanation",
	"slipway lifecycle retry":       "internal/cli.decided",
	"slipway lifecycle skip":        "internal/cli.decided",
	"slipway openapi":               "",
	"slipway openapi diff":          "sdk/openapi.Difference",
	"slipway status":                "internal/status.Status",
	"slipway status --explain":      "internal/status.Placement",
	"slipway version":               "internal/cli.versionCommand.info",
	"slipway-agent preflight":       "internal/agent/preflight.Report",
	"slipway-agent software list":   "[]internal/agent/software.listed",
	"slipway-agent status":          "internal/agent/run.Status",
	"slipway-agent uninstall":       "internal/agent/uninstall.Report",
}

// The fields of the JSON output of every command, which are an API. TestCommands has the output
// of real commands.
func TestJSON(t *testing.T) {
	tree, err := read()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for command, output := range outputs {
		if output == "" {
			continue
		}
		list := strings.HasPrefix(output, "[]")
		s := fields{t: t, tree: tree, lines: lines}
		if list {
			output, command = output[2:], command+": [*]"
		} else {
			command += ": "
		}
		s.root(command, output)
	}
	compareSet(t, "json.txt", lines, 100)
}

// Every command that prints JSON is in the table.
func TestOutputsAreListed(t *testing.T) {
	walk(cli.Root(cli.Program{Name: "slipway"}), func(c *cobra.Command) {
		flag := c.Flags().Lookup("output")
		// What is below a hidden command is listed under its own name.
		if flag == nil || !strings.Contains(flag.Usage, "json") || c.Parent().Hidden {
			return
		}
		if _, ok := outputs[c.CommandPath()]; !ok {
			t.Errorf("`%s -o json` is not in outputs: add its type", c.CommandPath())
		}
	})
}

// walk visits every command of a program.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// fields collects a line for each field.
type fields struct {
	t     *testing.T
	tree  *source.Tree
	lines map[string]bool
	// open are the types that are being written, which may contain themselves.
	open []*ast.TypeSpec
}

// root begins with a type, or with the variable of a function.
func (s *fields) root(prefix, output string) {
	s.t.Helper()
	folder, name := path.Dir(output), ""
	if base := path.Base(output); strings.Contains(base, ".") {
		package_, rest, _ := strings.Cut(base, ".")
		folder, name = path.Join(folder, package_), rest
	}
	pkg := s.tree.Packages[folder]
	if pkg == nil {
		s.t.Fatalf("%s: there is no package %s", prefix, folder)
	}
	function, variable, isVariable := strings.Cut(name, ".")
	if !isVariable {
		spec, file := pkg.Declaration(name)
		if spec == nil {
			s.t.Fatalf("%s: package %s has no type %s", prefix, folder, name)
		}
		s.declared(prefix, pkg, file, spec, "")
		return
	}
	for _, file := range pkg.Files {
		for _, declaration := range file.Syntax.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Name.Name != function {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				assigned, ok := n.(*ast.AssignStmt)
				if !ok || len(assigned.Lhs) != 1 || len(assigned.Rhs) != 1 {
					return true
				}
				literal, ok := assigned.Rhs[0].(*ast.CompositeLit)
				if ident, isIdent := assigned.Lhs[0].(*ast.Ident); ok && isIdent && ident.Name == variable {
					s.expression(prefix, pkg, file, literal.Type, "")
					return false
				}
				return true
			})
			return
		}
	}
	s.t.Fatalf("%s: package %s has no function %s", prefix, folder, function)
}

// declared writes a type of this repository.
func (s *fields) declared(at string, pkg *source.Package, file *source.File, spec *ast.TypeSpec, options string) {
	if method, _ := pkg.Method(spec.Name.Name, "MarshalJSON"); method != nil {
		s.lines[at+" written by its own MarshalJSON"+options] = true
	}
	if slices.Contains(s.open, spec) {
		s.lines[at+" (as above)"+options] = true
		return
	}
	s.open = append(s.open, spec)
	s.expression(at, pkg, file, spec.Type, options)
	s.open = s.open[:len(s.open)-1]
}

// expression writes a type: fields of a struct below it, one line for anything else.
func (s *fields) expression(at string, pkg *source.Package, file *source.File, e ast.Expr, options string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		s.expression(at, pkg, file, e.X, options)
	case *ast.ParenExpr:
		s.expression(at, pkg, file, e.X, options)
	case *ast.ArrayType:
		s.expression(at+"[*]", pkg, file, e.Elt, options)
	case *ast.MapType:
		s.expression(at+"{*}", pkg, file, e.Value, options)
	case *ast.StructType:
		for _, field := range e.Fields.List {
			s.field(at, pkg, file, field)
		}
	case *ast.Ident:
		if spec, in := pkg.Declaration(e.Name); spec != nil {
			s.declared(at, pkg, in, spec, options)
			return
		}
		s.lines[at+" "+e.Name+options] = true
	case *ast.SelectorExpr:
		from := e.X.(*ast.Ident).Name
		if folder, ours := source.Folder(file.Imports[from]); ours {
			if other := s.tree.Packages[folder]; other != nil {
				if spec, in := other.Declaration(e.Sel.Name); spec != nil {
					s.declared(at, other, in, spec, options)
					return
				}
			}
		}
		s.lines[at+" "+from+"."+e.Sel.Name+options] = true
	default:
		s.lines[fmt.Sprintf("%s %T%s", at, e, options)] = true
	}
}

func (s *fields) field(at string, pkg *source.Package, file *source.File, field *ast.Field) {
	tag := ""
	if field.Tag != nil {
		text, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		tag = reflect.StructTag(text).Get("json")
	}
	name, options, _ := strings.Cut(tag, ",")
	if options != "" {
		options = " " + options
	}
	if len(field.Names) == 0 && name == "" {
		s.expression(at, pkg, file, field.Type, options) // embedded
		return
	}
	for _, ident := range field.Names {
		if name != "-" && ident.IsExported() {
			named := name
			if named == "" {
				named = ident.Name
			}
			s.expression(at+"."+named, pkg, file, field.Type, options)
		}
	}
}
