package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one small fault in a file.
type mutant struct {
	// File, from the root of the repository, and the function, or method with its receiver's type.
	File, In string
	// Mutant says what the fault is, such as "dropped: len(s.machines) == 0". It and In name the
	// mutant; a number follows where a function has several alike.
	Mutant string
	Line   int
}

// chosen is the variable that chooses the mutant of a woven program, by its number; reached names
// the file where the program notes which mutants its tests reach.
const (
	chosen  = "SLIPWAY_MUTANT"
	reached = "SLIPWAY_MUTANTS_REACHED"
)

// weaver makes all mutants of a file into one file, in which a number chooses one: a package is
// compiled once for all its mutants.
type weaver struct {
	file  string
	text  []byte
	files *token.FileSet
	in    string
	// next is the number of the next mutant.
	next    int
	mutants []mutant
	edits   []edit
	// without are mutants that do not compile.
	without func(mutant) bool
}

// edit is text before the byte at a place.
type edit struct {
	at   int
	text string
	// closing edits precede others at the same place, the last of them first.
	closing bool
	made    int
}

// weave returns the mutants of a file, numbered from first on, and the text that has them all.
func weave(file string, text []byte, first int, without func(mutant) bool) ([]mutant, []byte, error) {
	w := &weaver{file: file, text: text, files: token.NewFileSet(), next: first, without: without}
	syntax, err := parser.ParseFile(w.files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	if ast.IsGenerated(syntax) {
		return nil, text, nil
	}
	for _, d := range syntax.Decls {
		w.in = "package"
		if function, ok := d.(*ast.FuncDecl); ok {
			w.in = nameOf(function)
		}
		ast.Inspect(d, w.visit)
	}
	return w.mutants, w.woven(), nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

func (w *weaver) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		w.operands(n)
	case *ast.IfStmt:
		w.condition(n.Cond, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			w.condition(n.Cond, false)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					w.condition(e, true)
				}
			}
		}
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			if compares(e) {
				w.condition(e, true)
			}
		}
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	case *ast.CompositeLit:
		w.fields(n)
	case *ast.SelectorExpr:
		w.liveRead(n)
	}
	return true
}

// condition makes it always and never true. What a dropped operand shows is not tried twice, and a
// loop that never ends is not tried.
func (w *weaver) condition(e ast.Expr, always bool) {
	if ofError(e) {
		return
	}
	chain := operatorOf(e)
	if always && chain != token.LAND {
		w.boolean(e, "always", "true")
	}
	if chain != token.LOR {
		w.boolean(e, "never", "false")
	}
}

// operands drops each operand of && and ||.
func (w *weaver) operands(b *ast.BinaryExpr) {
	if b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	without := "true"
	if b.Op == token.LOR {
		without = "false"
	}
	for _, e := range []ast.Expr{b.X, b.Y} {
		if !ofError(e) && operatorOf(e) != b.Op {
			w.boolean(e, "dropped", without)
		}
	}
}

func (w *weaver) boolean(e ast.Expr, kind, instead string) {
	if n, ok := w.add(e, kind); ok {
		w.around(e, fmt.Sprintf("mutantBool(%d, %s, ", n, instead), ")")
	}
}

// statements drops assignments, and calls for their effect.
func (w *weaver) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool { return isName(e, "err") || isName(e, "_") }) {
				continue
			}
		case *ast.IncDecStmt:
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || observes(call) {
				continue
			}
		default:
			continue
		}
		if n, ok := w.add(s, "dropped"); ok {
			w.around(s, fmt.Sprintf("if !mutantIs(%d) { ", n), " }")
		}
	}
}

// fields sets the fields of a literal to zero, one at a time.
func (w *weaver) fields(literal *ast.CompositeLit) {
	var of string
	switch literal.Type.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		of = w.source(literal.Type)
	default:
		return
	}
	var zeroes strings.Builder
	for _, e := range literal.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		if n, ok := w.addAs(pair, "dropped: "+of+"."+short(w.source(pair))); ok {
			fmt.Fprintf(&zeroes, "if mutantIs(%d) { mutantZero(&mutantV.%s) }; ", n, key.Name)
		}
	}
	if zeroes.Len() > 0 {
		w.around(literal, "(*func() *"+of+" { mutantV := &", "; "+zeroes.String()+"return mutantV }())")
	}
}

// liveRead reads by the cache what is read past it.
func (w *weaver) liveRead(e *ast.SelectorExpr) {
	if e.Sel.Name != "APIReader" {
		return
	}
	if n, ok := w.add(e, "cached"); ok {
		w.around(e, fmt.Sprintf("mutantCached(%d, ", n), ", "+w.source(e.X)+".Client)")
	}
}

// add counts a mutant, unless it does not compile.
func (w *weaver) add(n ast.Node, kind string) (int, bool) {
	return w.addAs(n, kind+": "+short(w.source(n)))
}

func (w *weaver) addAs(n ast.Node, what string) (int, bool) {
	m := mutant{File: w.file, In: w.in, Mutant: what, Line: w.files.Position(n.Pos()).Line}
	for i := 2; slices.ContainsFunc(w.mutants, func(o mutant) bool { return o.In == m.In && o.Mutant == m.Mutant }); i++ {
		m.Mutant = fmt.Sprintf("%s (%d)", what, i)
	}
	number := w.next
	w.next++
	w.mutants = append(w.mutants, m)
	return number, !w.without(m)
}

func (w *weaver) around(n ast.Node, before, after string) {
	w.edits = append(w.edits,
		edit{at: w.offset(n.Pos()), text: before, made: len(w.edits)},
		edit{at: w.offset(n.End()), text: after, closing: true, made: len(w.edits)})
}

func (w *weaver) offset(p token.Pos) int { return w.files.Position(p).Offset }

func (w *weaver) source(n ast.Node) string {
	return string(w.text[w.offset(n.Pos()):w.offset(n.End())])
}

// woven applies the edits: an outer one, which was made before, opens before and closes after an
// inner one of the same place.
func (w *weaver) woven() []byte {
	slices.SortFunc(w.edits, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.closing != b.closing:
			if a.closing {
				return -1
			}
			return 1
		case a.closing:
			return cmp.Compare(b.made, a.made)
		default:
			return cmp.Compare(a.made, b.made)
		}
	})
	var text []byte
	at := 0
	for _, e := range w.edits {
		text = append(append(text, w.text[at:e.at]...), e.text...)
		at = e.at
	}
	return append(text, w.text[at:]...)
}

// short is source in one line, cut off where it is long.
func short(source string) string {
	const most = 140
	line := []rune(strings.Join(strings.Fields(source), " "))
	if len(line) > most {
		return string(line[:most]) + " …"
	}
	return string(line)
}

func operatorOf(e ast.Expr) token.Token {
	if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return b.Op
	}
	return token.ILLEGAL
}

// compares says whether an expression can only be a truth value, by its operator.
func compares(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		return e.Op == token.NOT
	case *ast.BinaryExpr:
		return slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR}, e.Op)
	}
	return false
}

// ofError says whether a condition is err != nil or the like: that errors are passed on is no rule
// of a contract, and linters find those that are not.
func ofError(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok || !isName(b.Y, "nil") {
		return false
	}
	found := false
	ast.Inspect(b.X, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && name.Name == "err" {
			found = true
		}
		return true
	})
	return found
}

func isName(e ast.Expr, name string) bool {
	found, ok := e.(*ast.Ident)
	return ok && found.Name == name
}

// observes says whether a call only writes a log or counts.
func observes(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if slices.Contains([]string{"Info", "Error", "Inc", "Observe"}, f.Sel.Name) {
		return true
	}
	return f.Sel.Name == "panic"
}
