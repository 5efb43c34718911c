package budget

import (
	"flag"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/source"
)

var (
	files = flag.String("files", "", "journey whose files are listed")
	why   = flag.String("why", "", "file of that journey: the chain of references that leads to it")
)

// journey is what somebody wants to understand: the code that can run from some functions on.
type journey struct {
	name string
	// entries are functions, as folder.Function or folder.Type.Method.
	entries []string
	// without are folders that the reader takes for granted.
	without []string
}

var (
	sdk = []string{"sdk"}
	// ofPlane leaves the plane alone.
	ofPlane = []string{"sdk", "api", "config", "templates", "internal"}
)

var journeys = []journey{
	{"a machine claims its host", []string{"internal/controller/hostmachine.Reconciler.claimHost"}, sdk},
	{"an agent enrolls", []string{"internal/controller/host.CSRReconciler.Reconcile"}, sdk},
	{"a pool rolls out or replaces a machine", []string{"internal/controller/hostmachinepool.Reconciler.Reconcile"}, sdk},
	{"a bootstrap on the host", []string{"internal/agent/effects.Executor.Bootstrap"}, sdk},
	{"reset and proof", []string{"internal/agent/effects.Executor.Reset", "internal/agent/effects.Executor.Verify"}, sdk},
	{"BeforeClusterUpgrade is held back", []string{"sdk/extension.Server.serveHook", "internal/lifecycle/hooks.Handler.AddTo"}, nil},
	{"somebody writes a policy", []string{"internal/lifecycle/admission.policyValidator.ValidateUpdate", "internal/lifecycle/policy.Reconciler.Reconcile"}, sdk},
	{"slipway status", []string{"internal/cli.statusCommand"}, []string{"sdk", "plane"}},
	{"slipway up, the command", []string{"plane/internal/cli.upCommand"}, ofPlane},
	{"slipway up, the plane", []string{"plane/internal/cli.serveCommand"}, ofPlane},
}

// countJourneys counts the files that declare what the code of each journey refers to: functions
// and methods, followed from one to the next, and types, constants and variables. A method of an
// interface leads to every type that implements it in what the entries import: what others hand to
// them is the contract's other side, which a reader does not open.
func countJourneys(t *testing.T, now figures) {
	t.Helper()
	tree, err := source.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for folder := range tree.Packages {
		if in := partOf(t, folder); in == tests || in == "generators" {
			delete(tree.Packages, folder)
		}
	}
	p := newProgram(tree)
	for _, j := range journeys {
		found := p.follow(t, j)
		folders := map[string]bool{}
		for name := range found {
			folders[path.Dir(name)] = true
		}
		now["journey "+j.name+": files"], now["journey "+j.name+": packages"] = len(found), len(folders)
		if *files == j.name {
			for _, name := range slices.Sorted(maps.Keys(found)) {
				t.Log(name)
			}
		}
	}
}

// program is all code with what its names refer to.
type program struct {
	tree     *source.Tree
	packages map[*types.Package]*source.Checked
	// bodies are the functions, and the values of variables, by what they declare.
	bodies map[types.Object]ast.Node
	// generated files are nobody's reading.
	generated map[string]bool
	// methods by their names, for calls by interfaces.
	methods map[string][]*types.Func
}

func newProgram(tree *source.Tree) *program {
	p := &program{tree: tree, packages: map[*types.Package]*source.Checked{}, bodies: map[types.Object]ast.Node{}, generated: map[string]bool{}, methods: map[string][]*types.Func{}}
	for _, pkg := range tree.CheckAll() {
		if pkg == nil || pkg.Types == nil {
			continue
		}
		p.packages[pkg.Types] = pkg
		for _, f := range pkg.Files {
			p.generated[f.Name] = f.Generated()
			for _, declaration := range f.Syntax.Decls {
				p.declare(pkg, declaration)
			}
		}
	}
	return p
}

func (p *program) declare(pkg *source.Checked, declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if object, ok := pkg.Info.Defs[d.Name].(*types.Func); ok {
			p.bodies[object] = d
			if d.Recv != nil {
				p.methods[object.Name()] = append(p.methods[object.Name()], object)
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range values.Names {
					if object := pkg.Info.Defs[name]; object != nil {
						p.bodies[object] = values
					}
				}
			}
		}
	}
}

// follow returns the files of a journey.
func (p *program) follow(t *testing.T, j journey) map[string]bool {
	t.Helper()
	var (
		found    = map[string]bool{}
		from     = map[types.Object]types.Object{}
		open     []types.Object
		imported = map[*types.Package]bool{}
	)
	visit := func(object, by types.Object) {
		if f, ok := object.(*types.Func); ok {
			object = f.Origin()
		}
		pkg := p.packages[object.Pkg()]
		if _, seen := from[object]; pkg == nil || seen || slices.ContainsFunc(j.without, func(out string) bool { return within(pkg.Folder, out) }) {
			return
		}
		from[object] = by
		if name := p.fileOf(object); name != "" && !p.generated[name] {
			if *files == j.name && *why == name && !found[name] {
				for o := object; o != nil; o = from[o] {
					t.Logf("%s refers to %s", p.fileOf(o), o.Name())
				}
			}
			found[name] = true
		}
		open = append(open, object)
	}
	for _, entry := range j.entries {
		object := p.entry(entry)
		if object == nil {
			t.Fatalf("journey %q: there is no %s any more; name where it begins now", j.name, entry)
		}
		p.imports(object.Pkg(), imported)
		visit(object, nil)
	}
	for len(open) > 0 {
		object := open[0]
		open = open[1:]
		for _, implementation := range p.implementations(object) {
			if imported[implementation.Pkg()] {
				visit(implementation, object)
			}
		}
		body, pkg := p.bodies[object], p.packages[object.Pkg()]
		if body == nil {
			continue
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				if used := pkg.Info.Uses[name]; used != nil && used.Pkg() != nil && !local(used) {
					visit(used, object)
				}
			}
			return true
		})
	}
	return found
}

// imports notes a package and all that it imports of this repository.
func (p *program) imports(pkg *types.Package, noted map[*types.Package]bool) {
	if noted[pkg] || p.packages[pkg] == nil {
		return
	}
	noted[pkg] = true
	for _, other := range pkg.Imports() {
		p.imports(other, noted)
	}
}

// local says whether an object is declared in a function.
func local(object types.Object) bool {
	variable, ok := object.(*types.Var)
	return ok && !variable.IsField() && object.Parent() != object.Pkg().Scope() || object.Pkg() == nil
}

// implementations are the methods that a call of an interface's method can reach.
func (p *program) implementations(object types.Object) []types.Object {
	method, ok := object.(*types.Func)
	if !ok {
		return nil
	}
	receiver := method.Signature().Recv()
	if receiver == nil {
		return nil
	}
	contract, ok := receiver.Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	var found []types.Object
	for _, candidate := range p.methods[method.Name()] {
		if types.Implements(candidate.Signature().Recv().Type(), contract) {
			found = append(found, candidate)
		}
	}
	return found
}

// entry finds folder.Function or folder.Type.Method.
func (p *program) entry(name string) types.Object {
	base := path.Base(name)
	pkgName, rest, _ := strings.Cut(base, ".")
	pkg := p.tree.Check(path.Join(path.Dir(name), pkgName))
	if pkg == nil || pkg.Types == nil {
		return nil
	}
	receiver, method, isMethod := strings.Cut(rest, ".")
	object := pkg.Types.Scope().Lookup(receiver)
	if !isMethod || object == nil {
		return object
	}
	found, _, _ := types.LookupFieldOrMethod(types.NewPointer(object.Type()), true, pkg.Types, method)
	return found
}

// fileOf is the path of the file that declares an object.
func (p *program) fileOf(object types.Object) string {
	position := p.tree.Files.Position(object.Pos())
	for _, f := range p.packages[object.Pkg()].Files {
		if p.tree.Files.Position(f.Syntax.Package).Filename == position.Filename {
			return f.Name
		}
	}
	return ""
}

func within(folder, of string) bool { return folder == of || strings.HasPrefix(folder, of+"/") }
