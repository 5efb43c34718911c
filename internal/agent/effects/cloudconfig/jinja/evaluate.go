package jinja

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	controlStructures "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// renderer evaluates a parsed template. A value is a string, an int, a bool, a []any of such, a
// map[string]any, or undefined. Whatever else Jinja2 has (numbers with a fraction, None, tuples,
// dictionaries made in the template) is refused.
type renderer struct {
	source    string
	out       io.Writer
	limit     int
	variables map[string]any
}

// undefined is what a name without a value evaluates to. It may be given to the filter default and
// to the tests defined and undefined, and to nothing else.
type undefined struct {
	name  string
	place *tokens.Token
}

func (u undefined) error() error { return refuse(u.place, "%.80q has no value", u.name) }

// Elsewhere is the value of a variable that other renderers of a template know, and this one does not. Unlike
// a name without a value it is refused wherever it stands: with them it is defined, and no filter gives it a default.
type Elsewhere struct{}

// known refuses what only other renderers know.
func known(v any, name string, at *tokens.Token) (any, error) {
	if _, elsewhere := v.(Elsewhere); elsewhere {
		return nil, refuse(at, "%.80q has no value on this host, and one with cloud-init, also for a test or a default", name)
	}
	return v, nil
}

func (r *renderer) nodes(all []nodes.Node) error {
	for _, node := range all {
		if err := r.node(node); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) node(node nodes.Node) error {
	switch n := node.(type) {
	case nil, *nodes.Comment:
		return nil
	case *nodes.Data:
		return r.write(n.Data, data(n))
	case *nodes.Output:
		v, err := r.conditional(n.Expression, n.Condition, n.Alternative)
		if err != nil || v == nil {
			return err
		}
		s, err := text(n.Expression.Position(), v)
		if err != nil {
			return err
		}
		return r.write(n.Start, s)
	case *nodes.ControlStructureBlock:
		switch s := n.ControlStructure.(type) {
		case *controlStructures.IfControlStructure:
			return r.branch(s)
		case *raw:
			return r.write(n.Location, data(s.Data))
		case *assignment:
			v, err := r.conditional(s.value, s.condition, s.alternative)
			if err != nil {
				return err
			}
			if u, ok := v.(undefined); ok {
				return u.error()
			}
			if v == nil {
				return refuse(s.Position(), "the if of a set needs an else")
			}
			r.variables[s.Name.Name.Val] = v
			return nil
		}
	}
	return refuse(node.Position(), "this is not supported; %s", literally)
}

func (r *renderer) write(at *tokens.Token, s string) error {
	if _, err := io.WriteString(r.out, s); err != nil {
		return refuse(at, "the template renders to more than %d bytes", r.limit)
	}
	return nil
}

// data is text between tags, less what the tags beside it take away.
func data(n *nodes.Data) string {
	s := n.Data.Val
	if n.Trim.Left {
		s = strings.TrimLeftFunc(s, isSpace)
	}
	if n.Trim.Right {
		s = strings.TrimRightFunc(s, isSpace)
	}
	return s
}

func (r *renderer) branch(s *controlStructures.IfControlStructure) error {
	for i, condition := range s.Conditions {
		holds, err := r.truth(condition)
		if err != nil {
			return err
		}
		if holds {
			return r.nodes(s.Wrappers[i].Nodes)
		}
	}
	if len(s.Wrappers) > len(s.Conditions) {
		return r.nodes(s.Wrappers[len(s.Conditions)].Nodes)
	}
	return nil
}

// conditional evaluates "a if b else c"; it returns nil where b does not hold and there is no c.
func (r *renderer) conditional(value, condition, alternative nodes.Expression) (any, error) {
	if condition != nil {
		holds, err := r.truth(condition)
		if err != nil {
			return nil, err
		}
		if !holds {
			if alternative == nil {
				return nil, nil
			}
			value = alternative
		}
	}
	return r.eval(value)
}

// truth evaluates an expression that decides something.
func (r *renderer) truth(e nodes.Node) (bool, error) {
	v, err := r.defined(e)
	if err != nil {
		return false, err
	}
	return isTrue(v), nil
}

func isTrue(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case int:
		return v != 0
	case bool:
		return v
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// defined evaluates an expression that must have a value.
func (r *renderer) defined(e nodes.Node) (any, error) {
	v, err := r.eval(e)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, u.error()
	}
	return v, nil
}

// globals are names that have a value in each template of Jinja2, unless it sets them.
var globals = map[string]bool{"cycler": true, "dict": true, "joiner": true, "lipsum": true, "namespace": true, "range": true, "self": true}

func (r *renderer) eval(e nodes.Node) (any, error) {
	switch n := e.(type) {
	case *nodes.String:
		return r.literal(n)
	case *nodes.Integer:
		// Python counts 0x10 and 0b1 otherwise than the library does
		if s := n.Location.Val; strings.Trim(s, "0123456789") != "" {
			return nil, refuse(n.Location, "the number %.20q is not supported", s)
		}
		return n.Val, nil
	case *nodes.Bool:
		return n.Val, nil
	case *nodes.Name:
		if isConstant(n.Name.Val) {
			return nil, refuse(n.Name, "%s is not supported", n.Name.Val)
		}
		if v, ok := r.variables[n.Name.Val]; ok {
			return known(v, n.Name.Val, n.Name)
		}
		if globals[n.Name.Val] {
			return nil, refuse(n.Name, "%s is something else in Jinja2, and is not supported", n.Name.Val)
		}
		return undefined{n.Name.Val, n.Name}, nil
	case *nodes.List:
		list := []any{}
		for _, item := range n.Val {
			v, err := r.defined(item)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return r.operation(e)
}

// operation evaluates what is made of other expressions.
func (r *renderer) operation(e nodes.Node) (any, error) {
	switch n := e.(type) {
	case *nodes.GetAttribute:
		if n.Attribute == "" {
			return r.item(n.Node, n.Index, n.Location)
		}
		return r.attribute(n)
	case *nodes.GetItem:
		key, err := r.defined(n.Arg)
		if err != nil {
			return nil, err
		}
		return r.item(n.Node, key, n.Location)
	case *nodes.GetSlice:
		return r.slice(n)
	case *nodes.Call:
		return r.call(n)
	case *nodes.FilteredExpression:
		return r.filtered(n)
	case *nodes.TestExpression:
		return r.test(n)
	case *nodes.Negation:
		holds, err := r.truth(n.Term)
		return !holds, err
	case *nodes.UnaryExpression:
		return r.signed(n)
	case *nodes.BinaryExpression:
		return r.binary(n)
	}
	if e == nil {
		return nil, refuse(nil, "an expression is missing")
	}
	return nil, refuse(e.Position(), "%s not supported", kindOf(e))
}

func (r *renderer) signed(n *nodes.UnaryExpression) (any, error) {
	v, err := r.defined(n.Term)
	if err != nil {
		return nil, err
	}
	i, ok := v.(int)
	if !ok {
		return nil, refuse(n.Operator, "a sign needs a whole number behind it")
	}
	if n.Negative {
		i = -i
	}
	return i, nil
}

func kindOf(e nodes.Node) string {
	switch e.(type) {
	case *nodes.None:
		return "none is"
	case *nodes.Float:
		return "numbers with a fraction are"
	case *nodes.Dict, *nodes.Pair:
		return "dictionaries are"
	case *nodes.Tuple:
		return "tuples are"
	}
	return "this is"
}

// literal is a string of the template. Escapes are read from the source: the library passes over
// those that it does not know, and where a line ends before the string, it takes that for
// the string's beginning.
func (r *renderer) literal(n *nodes.String) (any, error) {
	s := r.source[n.Location.Pos:]
	quote := s[0]
	if quote != '"' && quote != '\'' {
		return nil, refuse(n.Location, "an expression must stand on one line")
	}
	for i := 1; i < len(s) && s[i] != quote; i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		if i == len(s) || !strings.ContainsRune(`nt\'"`, rune(s[i])) {
			return nil, refuse(n.Location, "in strings only the escapes \\n, \\t, \\\\, \\' and \\\" are supported")
		}
	}
	return n.Val, nil
}

// ofDictionary are the methods of a dictionary, which Jinja2 prefers to keys of that name.
var ofDictionary = map[string]bool{
	"clear": true, "copy": true, "fromkeys": true, "get": true, "items": true, "keys": true, "pop": true, "popitem": true, "setdefault": true, "update": true, "values": true,
}

func (r *renderer) attribute(n *nodes.GetAttribute) (any, error) {
	of, err := r.defined(n.Node)
	if err != nil {
		return nil, err
	}
	variables, ok := of.(map[string]any)
	if !ok || ofDictionary[n.Attribute] || strings.HasPrefix(n.Attribute, "_") {
		return nil, refuse(n.Location, "the attribute %.40q is not supported here", n.Attribute)
	}
	return lookUp(variables, n.Attribute, n.Node, n.Location)
}

func lookUp(variables map[string]any, key string, of nodes.Node, at *tokens.Token) (any, error) {
	if v, ok := variables[key]; ok {
		return known(v, path(of)+key, at)
	}
	return undefined{path(of) + key, at}, nil
}

// path is how a template reached a dictionary, with a dot at its end.
func path(n nodes.Node) string {
	switch n := n.(type) {
	case *nodes.Name:
		return n.Name.Val + "."
	case *nodes.GetAttribute:
		return path(n.Node) + n.Attribute + "."
	case *nodes.GetItem:
		if s, ok := n.Arg.(*nodes.String); ok {
			return path(n.Node) + s.Val + "."
		}
	}
	return ""
}

// item is of[key].
func (r *renderer) item(of nodes.Node, key any, at *tokens.Token) (any, error) {
	container, err := r.defined(of)
	if err != nil {
		return nil, err
	}
	if variables, ok := container.(map[string]any); ok {
		if name, ok := key.(string); ok {
			return lookUp(variables, name, of, at)
		}
	}
	list, ok := sequence(container)
	i, isIndex := key.(int)
	if !ok || !isIndex {
		return nil, refuse(at, "an index needs a list or a string before it, and a whole number in it")
	}
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return undefined{path(of) + strconv.Itoa(i), at}, nil
	}
	return list[i], nil
}

// sequence returns the elements of a list, or the characters of a string.
func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case string:
		list := []any{}
		for _, c := range v {
			list = append(list, string(c))
		}
		return list, true
	}
	return nil, false
}

func (r *renderer) slice(n *nodes.GetSlice) (any, error) {
	of, err := r.defined(n.Node)
	if err != nil {
		return nil, err
	}
	list, ok := sequence(of)
	if !ok || n.Step != nil {
		return nil, refuse(n.Location, "a slice needs a list or a string before it, and has a start and an end only")
	}
	bound := func(e nodes.Node, otherwise int) (int, error) {
		if e == nil {
			return otherwise, nil
		}
		v, err := r.defined(e)
		if err != nil {
			return 0, err
		}
		i, ok := v.(int)
		if !ok {
			return 0, refuse(n.Location, "start and end of a slice are whole numbers")
		}
		if i < 0 {
			i += len(list)
		}
		return max(0, min(i, len(list))), nil
	}
	start, err := bound(n.Start, 0)
	if err != nil {
		return nil, err
	}
	end, err := bound(n.End, len(list))
	if err != nil {
		return nil, err
	}
	part := list[start:max(start, end)]
	if _, ok := of.([]any); ok {
		return part, nil
	}
	var b strings.Builder
	for _, c := range part {
		b.WriteString(c.(string))
	}
	return b.String(), nil
}

// text is how a value is written.
func text(at *tokens.Token, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case undefined:
		return "", v.error()
	}
	return "", refuse(at, "a list or a dictionary cannot be written; choose one of its elements, or use the filter join")
}

// comparisons are those whose result Jinja2 compares further: 1 < 2 < 3 is no (1 < 2) < 3.
var comparisons = map[tokens.Type]bool{
	tokens.Equals: true, tokens.Ne: true, tokens.LowerThan: true, tokens.LowerThanOrEqual: true, tokens.GreaterThan: true, tokens.GreaterThanOrEqual: true,
}

func isComparison(e nodes.Node) bool {
	b, ok := e.(*nodes.BinaryExpression)
	return ok && comparisons[b.Operator.Token.Type]
}

func (r *renderer) binary(n *nodes.BinaryExpression) (any, error) {
	operator := n.Operator.Token
	if comparisons[operator.Type] && isComparison(n.Left) {
		return nil, refuse(operator, chained)
	}
	left, err := r.defined(n.Left)
	if err != nil {
		return nil, err
	}
	switch {
	case operator.Type == tokens.And && !isTrue(left), operator.Type == tokens.Or && isTrue(left):
		return left, nil
	case operator.Type == tokens.And, operator.Type == tokens.Or:
		return r.eval(n.Right)
	}
	right, err := r.defined(n.Right)
	if err != nil {
		return nil, err
	}
	if operator.Type == tokens.Tilde {
		a, err := text(n.Left.Position(), left)
		if err != nil {
			return nil, err
		}
		b, err := text(n.Right.Position(), right)
		return a + b, err
	}
	v := operate(operator.Type, left, right)
	if v == nil {
		return nil, refuse(operator, "the operator %s is not supported between these values; ~ joins strings", operator.Val)
	}
	return v, nil
}

const chained = "comparisons cannot be chained; use and between them"

// operate returns nil where it is not certain what Jinja2 does, which may be an error.
func operate(operator tokens.Type, left, right any) any {
	if a, ok := left.(string); ok {
		if b, ok := right.(string); ok {
			if operator == tokens.Addition {
				return a + b
			}
			return compared(operator, strings.Compare(a, b))
		}
	}
	if a, ok := left.(bool); ok {
		if b, ok := right.(bool); ok && (operator == tokens.Equals || operator == tokens.Ne) {
			return (a == b) == (operator == tokens.Equals)
		}
		return nil
	}
	if a, ok := left.(int); ok {
		if b, ok := right.(int); ok {
			return calculated(operator, a, b)
		}
	}
	// values of two kinds are unequal, but true is 1 and false is 0
	_, number := right.(bool)
	if _, other := left.(int); operator == tokens.Equals || operator == tokens.Ne {
		if _, list := left.([]any); !list && (!number || !other) && !sameKind(left, right) {
			return operator == tokens.Ne
		}
	}
	return nil
}

func sameKind(a, b any) bool {
	_, x := a.(string)
	_, y := b.(string)
	return x == y
}

func compared(operator tokens.Type, order int) any {
	switch operator {
	case tokens.Equals:
		return order == 0
	case tokens.Ne:
		return order != 0
	case tokens.LowerThan:
		return order < 0
	case tokens.LowerThanOrEqual:
		return order <= 0
	case tokens.GreaterThan:
		return order > 0
	case tokens.GreaterThanOrEqual:
		return order >= 0
	default:
		return nil
	}
}

// most bounds whole numbers, so that their products fit.
const most = 1<<31 - 1

func calculated(operator tokens.Type, a, b int) any {
	if max(a, -a, b, -b) > most {
		return nil
	}
	switch operator {
	case tokens.Addition:
		return a + b
	case tokens.Subtraction:
		return a - b
	case tokens.Multiply:
		return a * b
	case tokens.FloorDivision, tokens.Modulo:
		if b == 0 {
			return nil
		}
		// Python rounds down, Go toward zero
		quotient := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			quotient--
		}
		if operator == tokens.Modulo {
			return a - quotient*b
		}
		return quotient
	default:
		return compared(operator, cmp.Compare(a, b))
	}
}

func contains(container, v any) any {
	switch c := container.(type) {
	case string:
		if s, ok := v.(string); ok {
			return strings.Contains(c, s)
		}
	case map[string]any:
		if s, ok := v.(string); ok {
			_, found := c[s]
			return found
		}
	case []any:
		for _, element := range c {
			switch same := operate(tokens.Equals, element, v); same {
			case nil:
				return nil
			case true:
				return true
			}
		}
		return false
	}
	return nil
}
