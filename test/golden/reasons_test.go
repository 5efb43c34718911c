package golden

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// What the code says with each reason of a condition, where both stand in one call, literal
// or return.
func TestReasons(t *testing.T) {
	values, found := constants(t), map[string]bool{}
	for _, pkg := range product(t) {
		for _, file := range pkg.Files {
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				var reasons, texts []string
				for _, e := range together(n) {
					if name, ok := reasonOf(e); ok && values[name] != "" {
						reasons = append(reasons, values[name])
					} else {
						texts = append(texts, saidBy(e)...)
					}
				}
				for _, reason := range reasons {
					for _, text := range texts {
						found[reason+" "+strconv.Quote(text)] = true
					}
				}
				return true
			})
		}
	}
	compareSet(t, "reasons.txt", found, 80)
}

// Every event: its type, reason, action and text.
func TestEvents(t *testing.T) {
	values, found := constants(t), map[string]bool{}
	for _, pkg := range product(t) {
		for _, file := range pkg.Files {
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) < 6 {
					return true
				}
				function, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || function.Sel.Name != "Eventf" {
					return true
				}
				var parts []string
				for _, e := range call.Args[2:6] {
					parts = append(parts, partOf(e, values))
				}
				found[strings.Join(parts, " ")] = true
				return true
			})
		}
	}
	compareSet(t, "events.txt", found, 30)
}

// partOf is an argument of an event as a text, … for what is only known when it is recorded.
func partOf(e ast.Expr, values map[string]string) string {
	if text, ok := textOf(e); ok {
		if strings.Contains(text, " ") {
			return strconv.Quote(text)
		}
		return text
	}
	if selector, ok := e.(*ast.SelectorExpr); ok {
		if kind, ok := strings.CutPrefix(selector.Sel.Name, "EventType"); ok {
			return kind
		}
		if text := values[selector.Sel.Name]; text != "" {
			return text
		}
	}
	return "…"
}

// together are the expressions of a call, a literal, a return or an assignment.
func together(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		return n.Args
	case *ast.ReturnStmt:
		return n.Results
	case *ast.AssignStmt:
		return n.Rhs
	case *ast.CompositeLit:
		var values []ast.Expr
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				e = pair.Value
			}
			values = append(values, e)
		}
		return values
	}
	return nil
}

func reasonOf(e ast.Expr) (string, bool) {
	name := ""
	switch e := e.(type) {
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		name = e.Name
	}
	return name, strings.HasSuffix(name, "Reason") && ast.IsExported(name)
}

// saidBy are the texts that an expression is, or is formatted by.
func saidBy(e ast.Expr) []string {
	if text, ok := textOf(e); ok {
		if words.MatchString(text) {
			return []string{text}
		}
		return nil
	}
	switch e := e.(type) {
	case *ast.CallExpr:
		var all []string
		for _, argument := range e.Args {
			all = append(all, saidBy(argument)...)
		}
		return all
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return append(saidBy(e.X), saidBy(e.Y)...)
		}
	}
	return nil
}
