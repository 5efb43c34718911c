package jinja

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/nodes"
)

// method is one of a string. It returns nil where it is not certain what Python does, as for
// arguments that it refuses.
type method func(s string, args []any) any

// methods of strings, as Python has them.
var methods = map[string]method{
	"endswith":   onStrings(func(s, of string) any { return strings.HasSuffix(s, of) }),
	"lower":      ascii(strings.ToLower),
	"lstrip":     strip(strings.TrimLeftFunc),
	"partition":  partition(strings.Index, 0),
	"replace":    replace,
	"rpartition": partition(strings.LastIndex, 2),
	"rsplit":     rsplit,
	"rstrip":     strip(strings.TrimRightFunc),
	"split":      split,
	"startswith": onStrings(func(s, of string) any { return strings.HasPrefix(s, of) }),
	"strip":      strip(strings.TrimFunc),
	"upper":      ascii(strings.ToUpper),
}

func (r *renderer) call(n *nodes.Call) (any, error) {
	function, ok := n.Func.(*nodes.GetAttribute)
	if !ok || methods[function.Attribute] == nil {
		return nil, refuse(n.Location, "this call is not supported; strings have the methods %s", names(methods))
	}
	self, err := r.defined(function.Node)
	if err != nil {
		return nil, err
	}
	args, err := r.arguments(n.Args, n.Kwargs)
	if err != nil {
		return nil, err
	}
	if s, ok := self.(string); ok && args != nil {
		if v := methods[function.Attribute](s, args); v != nil {
			return v, nil
		}
	}
	return nil, refuse(n.Location, "the method %s is not supported on this value with these arguments", function.Attribute)
}

// arguments returns nil when there are arguments by name.
func (r *renderer) arguments(all []nodes.Expression, byName map[string]nodes.Expression) ([]any, error) {
	if len(byName) > 0 {
		return nil, nil
	}
	args := []any{}
	for _, e := range all {
		v, err := r.defined(e)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return args, nil
}

func onStrings(f func(s, of string) any) method {
	return func(s string, args []any) any {
		if of, ok := one[string](args); ok {
			return f(s, of)
		}
		return nil
	}
}

func one[T any](args []any) (v T, ok bool) {
	if len(args) == 1 {
		v, ok = args[0].(T)
	}
	return v, ok
}

// ascii is f on strings in which a letter has one upper and one lower form.
func ascii(f func(string) string) method {
	return func(s string, args []any) any {
		if len(args) > 0 || strings.ContainsFunc(s, func(c rune) bool { return c > unicode.MaxASCII }) {
			return nil
		}
		return f(s)
	}
}

// isSpace is what Python takes for white space.
func isSpace(c rune) bool { return unicode.IsSpace(c) || '\x1c' <= c && c <= '\x1f' }

func strip(f func(string, func(rune) bool) string) method {
	return func(s string, args []any) any {
		if len(args) == 0 {
			return f(s, isSpace)
		}
		if set, ok := one[string](args); ok {
			return f(s, func(c rune) bool { return strings.ContainsRune(set, c) })
		}
		return nil
	}
}

// partition returns what is before, at and behind a separator; without one the string is at
// the index whole.
func partition(index func(s, separator string) int, whole int) method {
	return onStrings(func(s, separator string) any {
		if separator == "" {
			return nil
		}
		at := index(s, separator)
		if at < 0 {
			parts := []any{"", "", ""}
			parts[whole] = s
			return parts
		}
		return []any{s[:at], separator, s[at+len(separator):]}
	})
}

// longest bounds what replace makes, in bytes.
const longest = 1 << 20

func replace(s string, args []any) any {
	if len(args) != 2 && len(args) != 3 {
		return nil
	}
	from, isFrom := args[0].(string)
	to, isTo := args[1].(string)
	if !isFrom || !isTo {
		return nil
	}
	count := -1
	if len(args) == 3 {
		var ok bool
		if count, ok = args[2].(int); !ok {
			return nil
		}
	}
	if from == "" && count >= 0 {
		return nil
	}
	if replaced := strings.Count(s, from); len(s)+replaced*len(to) > longest {
		return nil
	}
	return strings.Replace(s, from, to, count)
}

// separated returns the separator, empty for white space, and how many times at most to split.
func separated(args []any) (separator string, limit int, ok bool) {
	limit = -1
	if len(args) > 0 {
		if separator, ok = args[0].(string); !ok || separator == "" {
			return "", 0, false
		}
	}
	if len(args) == 2 {
		if limit, ok = args[1].(int); !ok {
			return "", 0, false
		}
	}
	return separator, limit, len(args) <= 2
}

func split(s string, args []any) any {
	separator, limit, ok := separated(args)
	switch {
	case !ok:
		return nil
	case separator == "":
		return list(strings.FieldsFunc(s, isSpace))
	case limit < 0:
		return list(strings.Split(s, separator))
	}
	return list(strings.SplitN(s, separator, limit+1))
}

func rsplit(s string, args []any) any {
	separator, limit, ok := separated(args)
	if !ok {
		return nil
	}
	if separator == "" || limit < 0 {
		return split(s, args)
	}
	var parts []any
	for ; limit > 0; limit-- {
		at := strings.LastIndex(s, separator)
		if at < 0 {
			break
		}
		parts = append(parts, s[at+len(separator):])
		s = s[:at]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

func list(all []string) []any {
	list := []any{}
	for _, s := range all {
		list = append(list, s)
	}
	return list
}

// filter is a Jinja2 filter. It returns nil where it is not certain what that does.
type filter func(v any, args []any) any

// filters but default, which alone takes what has no value.
var filters = map[string]filter{
	"capitalize": onText(func(s string, args []any) any {
		lower, ok := methods["lower"](s, args).(string)
		if !ok || lower == "" {
			return nil
		}
		return strings.ToUpper(lower[:1]) + lower[1:]
	}),
	"first": func(v any, args []any) any { return end(v, args, func(l []any) any { return l[0] }) },
	"int":   toInt,
	"join":  join,
	"last":  func(v any, args []any) any { return end(v, args, func(l []any) any { return l[len(l)-1] }) },
	"length": func(v any, args []any) any {
		if l, ok := sequence(v); ok && len(args) == 0 {
			return len(l)
		}
		return nil
	},
	"lower":   onText(methods["lower"]),
	"replace": onText(replace),
	"string":  onText(func(s string, args []any) any { return empty(args, s) }),
	"trim":    onText(methods["strip"]),
	"upper":   onText(methods["upper"]),
}

func filterNames() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(filters)), "d", "default")))
}

func names[V any](all map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(all)), ", ") }

func (r *renderer) filtered(n *nodes.FilteredExpression) (any, error) {
	if endsWithTest(n.Expression) {
		// "a in b | upper" is a in (b | upper) for Jinja2, and (a in b) | upper for the library
		return nil, refuse(n.Filters[0].Token, "a filter behind a test is not supported; set a variable first")
	}
	v, err := r.eval(n.Expression)
	if err != nil {
		return nil, err
	}
	for _, f := range n.Filters {
		if f.Name == "default" || f.Name == "d" {
			if v, err = r.orDefault(v, f); err != nil {
				return nil, err
			}
			continue
		}
		if u, ok := v.(undefined); ok {
			return nil, u.error()
		}
		if filters[f.Name] == nil {
			return nil, refuse(f.Token, "there is no filter %.40q; supported are %s", f.Name, strings.Join(filterNames(), ", "))
		}
		args, err := r.arguments(f.Args, f.Kwargs)
		if err != nil {
			return nil, err
		}
		if args != nil {
			if result := filters[f.Name](v, args); result != nil {
				v = result
				continue
			}
		}
		return nil, refuse(f.Token, "the filter %s is not supported on this value with these arguments", f.Name)
	}
	return v, nil
}

// orDefault is v, or the first argument when v has no value; with true as the second one also
// when v is false, empty or zero.
func (r *renderer) orDefault(v any, f *nodes.FilterCall) (any, error) {
	all, byName := f.Args, f.Kwargs
	if boolean, ok := byName["boolean"]; ok && len(all) == 1 && len(byName) == 1 {
		all, byName = []nodes.Expression{all[0], boolean}, nil
	}
	args, err := r.arguments(all, byName)
	if err != nil {
		return nil, err
	}
	if args == nil || len(args) > 2 {
		return nil, refuse(f.Token, "the filter default is not supported with these arguments")
	}
	value := any("")
	if len(args) > 0 {
		value = args[0]
	}
	_, missing := v.(undefined)
	if missing || len(args) == 2 && isTrue(args[1]) && !isTrue(v) {
		return value, nil
	}
	return v, nil
}

// onText is a method of strings as a filter, which takes a number or a bool as it is written.
func onText(m method) filter {
	return func(v any, args []any) any {
		s, err := text(nil, v)
		if err != nil {
			return nil
		}
		return m(s, args)
	}
}

func empty(args []any, v any) any {
	if len(args) > 0 {
		return nil
	}
	return v
}

func end(v any, args []any, choose func([]any) any) any {
	if l, ok := sequence(v); ok && len(l) > 0 {
		return empty(args, choose(l))
	}
	return nil
}

var (
	wholeNumber = regexp.MustCompile(`^[+-]?[0-9]{1,9}$`)
	// what Python may read as a number in some way
	maybeNumber = regexp.MustCompile(`(?i)\p{N}|inf|nan`)
)

func toInt(v any, args []any) any {
	otherwise := any(0)
	if len(args) == 1 {
		otherwise = args[0]
	}
	if len(args) > 1 {
		return nil
	}
	switch v := v.(type) {
	case int:
		return v
	case string:
		if s := strings.TrimFunc(v, isSpace); wholeNumber.MatchString(s) {
			i, err := strconv.Atoi(s)
			if err != nil {
				return nil
			}
			return i
		}
		if !maybeNumber.MatchString(v) {
			return otherwise
		}
	}
	return nil
}

func join(v any, args []any) any {
	separator := ""
	if len(args) > 0 {
		var ok bool
		if separator, ok = one[string](args); !ok {
			return nil
		}
	}
	elements, ok := sequence(v)
	if !ok {
		return nil
	}
	var parts []string
	for _, e := range elements {
		s, err := text(nil, e)
		if err != nil {
			return nil
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, separator)
}

// tests but defined and undefined, which alone take what has no value.
var tests = map[string]func(v any) bool{
	"boolean": func(v any) bool { _, ok := v.(bool); return ok },
	"integer": func(v any) bool { _, ok := v.(int); return ok },
	"mapping": func(v any) bool { _, ok := v.(map[string]any); return ok },
	"none":    func(any) bool { return false },
	"string":  func(v any) bool { _, ok := v.(string); return ok },
}

func (r *renderer) test(n *nodes.TestExpression) (any, error) {
	if n.Test.Name == "in" && len(n.Test.Args) == 1 && len(n.Test.Kwargs) == 0 {
		return r.isIn(n)
	}
	if _, ok := n.Expression.(*nodes.BinaryExpression); ok {
		// "a ~ b is string" is a ~ (b is string) for Jinja2, and (a ~ b) is string for the library
		return nil, refuse(n.Test.Token, "a test behind an operator is not supported; set a variable first")
	}
	v, err := r.eval(n.Expression)
	if err != nil {
		return nil, err
	}
	_, missing := v.(undefined)
	simple := len(n.Test.Args) == 0 && len(n.Test.Kwargs) == 0
	switch {
	case simple && n.Test.Name == "defined":
		return !missing, nil
	case simple && n.Test.Name == "undefined":
		return missing, nil
	case missing:
		return nil, v.(undefined).error()
	case simple && tests[n.Test.Name] != nil:
		return tests[n.Test.Name](v), nil
	}
	return nil, refuse(n.Test.Token, "the test %.40q is not supported; supported are defined, undefined, %s", n.Test.Name, names(tests))
}

// isIn is both "a in b" and "a is in b".
func (r *renderer) isIn(n *nodes.TestExpression) (any, error) {
	if _, ok := n.Expression.(*nodes.BinaryExpression); ok {
		// "a ~ b in c" is (a ~ b) in c, "a ~ b is in c" is a ~ (b in c); the library reads both alike
		return nil, refuse(n.Test.Token, "in behind an operator is not supported; set a variable first")
	}
	v, err := r.defined(n.Expression)
	if err != nil {
		return nil, err
	}
	container, err := r.defined(n.Test.Args[0])
	if err != nil {
		return nil, err
	}
	if found := contains(container, v); found != nil {
		return found, nil
	}
	return nil, refuse(n.Test.Token, "in needs a list or a string behind it, and before it what may be in it")
}

func endsWithTest(e nodes.Node) bool {
	switch n := e.(type) {
	case *nodes.TestExpression:
		return true
	case *nodes.BinaryExpression:
		return endsWithTest(n.Right)
	case *nodes.Negation:
		return endsWithTest(n.Term)
	case *nodes.UnaryExpression:
		return endsWithTest(n.Term)
	}
	return false
}
