package reasons

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// setters are the packages that set conditions, or say with what reason.
var setters = []string{
	"./internal/controller/...", "./internal/host/...", "./internal/hosthooks/...", "./internal/agentrollout/...", "./internal/pool/...",
	"./internal/lifecycle/policy/...", "./internal/lifecycle/run/...",
}

// words are the fields named Reason that no condition gets: they explain a decision in a
// log, an event or the message of a condition.
var words = []string{"placement.Verdict", "pool.Step"}

// Every reason that a controller sets is exported by a package of api, or by Cluster API.
func TestReasonsAreExported(t *testing.T) {
	sources := load(t, setters...)
	found := 0
	for _, s := range sources.packages {
		for _, file := range s.files {
			s.reasons(file, func(e ast.Expr) {
				found++
				if problem := s.judge(e); problem != "" {
					t.Errorf("%s: %s", sources.fset.Position(e.Pos()), problem)
				}
			})
		}
	}
	if found < 150 {
		t.Errorf("only %d places that give a reason were found", found)
	}
}

// reasons visits each expression that becomes a reason: what is given to a field, a
// variable, a constant, a table or a parameter of that name, or returned by a function.
func (s *source) reasons(file *ast.File, visit func(ast.Expr)) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			s.assigned(n, visit)
		case *ast.ValueSpec:
			for i, value := range n.Values {
				if isReason(n.Names[i].Name) {
					s.given(value, visit)
				}
			}
		case *ast.FuncDecl:
			if isReason(n.Name.Name) && n.Body != nil {
				s.returned(n.Body, visit)
			}
		case *ast.CompositeLit:
			s.composed(n, visit)
		case *ast.CallExpr:
			s.called(n, visit)
		}
		return true
	})
}

func (s *source) assigned(n *ast.AssignStmt, visit func(ast.Expr)) {
	if len(n.Lhs) != len(n.Rhs) {
		return
	}
	for i, to := range n.Lhs {
		name := ""
		switch to := to.(type) {
		case *ast.Ident:
			name = to.Name
		case *ast.SelectorExpr:
			if isWord(s.info.Types[to.X].Type) {
				continue
			}
			name = to.Sel.Name
		}
		if isReason(name) {
			s.given(n.Rhs[i], visit)
		}
	}
}

// given visits a reason, or those of a table.
func (s *source) given(value ast.Expr, visit func(ast.Expr)) {
	if s.isText(value) {
		visit(value)
		return
	}
	table, ok := value.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range table.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Value
		}
		if s.isText(element) {
			visit(element)
		}
	}
}

// returned visits what a function returns whose name says that it is a reason.
func (s *source) returned(body *ast.BlockStmt, visit func(ast.Expr)) {
	ast.Inspect(body, func(n ast.Node) bool {
		if n, ok := n.(*ast.ReturnStmt); ok && len(n.Results) == 1 && s.isText(n.Results[0]) {
			visit(n.Results[0])
		}
		_, nested := n.(*ast.FuncLit)
		return !nested
	})
}

func (s *source) composed(n *ast.CompositeLit, visit func(ast.Expr)) {
	composed := s.info.Types[n].Type
	fields, ok := types.Unalias(composed).Underlying().(*types.Struct)
	if !ok || isWord(composed) {
		return
	}
	for i, element := range n.Elts {
		var name string
		value := element
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			name, value = pair.Key.(*ast.Ident).Name, pair.Value
		} else {
			name = fields.Field(i).Name()
		}
		if isReason(name) {
			visit(value)
		}
	}
}

func (s *source) called(n *ast.CallExpr, visit func(ast.Expr)) {
	signature, ok := s.info.Types[n.Fun].Type.(*types.Signature)
	if !ok || s.givesEvent(n) {
		return
	}
	for i, argument := range n.Args {
		if i < signature.Params().Len() && isReason(signature.Params().At(i).Name()) && s.isText(argument) {
			visit(argument)
		}
	}
}

// givesEvent says whether the call records an event, whose reasons are a matter of their
// own.
func (s *source) givesEvent(n *ast.CallExpr) bool {
	selector, ok := n.Fun.(*ast.SelectorExpr)
	return ok && strings.EqualFold(selector.Sel.Name, "eventf")
}

// judge says what is wrong with an expression that becomes a reason. It must be empty, a
// constant of the API, what is called a reason itself, and judged where that is given, or
// the result of a function of that name, judged by what it returns.
func (s *source) judge(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING && len(e.Value) > len(`""`) {
			return fmt.Sprintf("the reason %s is no constant of a package of api", e.Value)
		}
	case *ast.Ident:
		return s.judgeName(e)
	case *ast.SelectorExpr:
		return s.judgeName(e.Sel)
	case *ast.IndexExpr:
		// a table of reasons, judged below by its name
		return s.judge(e.X)
	case *ast.ParenExpr:
		return s.judge(e.X)
	case *ast.CallExpr:
		return s.judgeCall(e)
	default:
		return "a reason must not be put together: give it a constant in a package of api"
	}
	return ""
}

func (s *source) judgeCall(e *ast.CallExpr) string {
	name := ""
	switch called := e.Fun.(type) {
	case *ast.Ident:
		name = called.Name
	case *ast.SelectorExpr:
		name = called.Sel.Name
	}
	if s.info.Types[e.Fun].IsType() || !isReason(name) {
		return "a reason must not be made by what is not called one"
	}
	return ""
}

func (s *source) judgeName(name *ast.Ident) string {
	object := s.info.Uses[name]
	if constant, ok := object.(*types.Const); ok {
		if from := constant.Pkg().Path(); !strings.HasPrefix(from, module+"api/") && !strings.HasPrefix(from, "sigs.k8s.io/cluster-api/api/") {
			return fmt.Sprintf("the reason %s is a constant of %s, which is no package of api", name.Name, from)
		}
		if !isReason(name.Name) {
			return fmt.Sprintf("%s is not named as a reason", name.Name)
		}
		return ""
	}
	if !isReason(name.Name) {
		return fmt.Sprintf("%s becomes a reason: call it one, so that what it is given is judged", name.Name)
	}
	return ""
}

func isReason(name string) bool {
	return name == "reason" || strings.HasSuffix(name, "Reason")
}

func (s *source) isText(e ast.Expr) bool {
	basic, ok := s.info.Types[e].Type.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}

// isWord says whether t is a type of words, or a pointer to one.
func isWord(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && slices.Contains(words, named.Obj().Pkg().Name()+"."+named.Obj().Name())
}
