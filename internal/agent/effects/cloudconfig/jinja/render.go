package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controlStructures "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Error says where a template cannot be rendered and why. It quotes nothing of the template but
// names and operators.
type Error struct {
	// Line and Column count from 1; zero where the place is unknown.
	Line, Column int
	// Message says what is wrong, and what to write instead where that is known.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Render renders a template the way cloud-init does: the first newline after a block is dropped,
// one at the end is kept, and a variable without a value is an error. Variables are strings,
// Elsewhere, or map[string]any of such. What is rendered has at most limit bytes. Every error is an *Error.
func Render(source string, variables map[string]any, limit int) (out string, err error) {
	// The library panics on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			out, err = "", refuse(nil, "it cannot be read")
		}
	}()
	settings := config.New()
	settings.TrimBlocks = true
	settings.KeepTrailingNewline = true
	// Jinja2 reads each end of a line as \n and takes one at the end away, and cloud-init puts \n back
	newline := strings.HasSuffix(source, "\n")
	source = strings.TrimSuffix(newlines.Replace(source), "\n")
	loader, err := loaders.NewMemoryLoader(map[string]string{"/data": source})
	if err != nil {
		return "", refuse(nil, "it cannot be read")
	}
	if at := misplaced(source, settings); at != nil {
		return "", refuse(at, "this cannot be read; an expression has one line, operators or commas between its values, and a test has a name")
	}
	template, err := exec.NewTemplate("/data", settings, loader, &exec.Environment{Context: exec.EmptyContext(), ControlStructures: statements(source)})
	if err != nil {
		return "", syntaxError(source, err)
	}
	var b strings.Builder
	r := &renderer{source: source, out: &limitedWriter{w: &b, left: limit}, limit: limit, variables: maps.Clone(variables)}
	if err := r.nodes(template.Root().Nodes); err != nil {
		return "", err
	}
	if newline {
		b.WriteByte('\n')
	}
	return b.String(), nil
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// statements are those that a template may use. Loops, includes and macros are left out:
// bootstrap data has no use for them, and without them the output is bounded by the input.
func statements(source string) *exec.ControlStructureSet {
	return exec.NewControlStructureSet(map[string]parser.ControlStructureParser{"if": parseIf, "raw": rawParser(source), "set": parseSet})
}

// parseIf refuses what Jinja2 refuses and the library takes: an elif or a second else behind an else.
func parseIf(p, arguments *parser.Parser) (nodes.ControlStructure, error) {
	parse, _ := builtins.ControlStructures.Get("if")
	parsed, err := parse(p, arguments)
	if err != nil {
		return nil, err
	}
	wrappers := parsed.(*controlStructures.IfControlStructure).Wrappers
	for i, w := range wrappers {
		if w.EndTag == "else" && i+2 < len(wrappers) {
			return nil, p.Error("only endif can stand behind an else", w.Location)
		}
	}
	return parsed, nil
}

// assignment is {% set name = value %}.
type assignment struct {
	*nodes.Name

	value, condition, alternative nodes.Expression
}

func parseSet(_, arguments *parser.Parser) (nodes.ControlStructure, error) {
	name := arguments.Match(tokens.Name)
	if name == nil || isConstant(name.Val) || arguments.Match(tokens.Assign) == nil {
		return nil, arguments.Error(setForm, cmp.Or(name, arguments.Current()))
	}
	a := &assignment{Name: &nodes.Name{Name: name}}
	var err error
	if a.value, err = arguments.ParseExpression(); err != nil {
		return nil, err
	}
	if a.condition, a.alternative, err = arguments.ParseCondition(); err != nil {
		return nil, err
	}
	if !arguments.End() {
		return nil, arguments.Error(setForm, arguments.Current())
	}
	return a, nil
}

const setForm = "a set has the form {% set name = value %}"

func isConstant(name string) bool {
	switch name {
	case "true", "True", "false", "False", "none", "None":
		return true
	}
	return false
}

// raw is what stands between {% raw %} and {% endraw %}.
type raw struct{ *nodes.Data }

// rawParser reads raw in a source. Jinja2 keeps the newline behind {% raw %}; the library's
// lexer passes over it like over those behind other statements.
func rawParser(source string) parser.ControlStructureParser {
	return func(p, arguments *parser.Parser) (nodes.ControlStructure, error) {
		if !arguments.End() {
			return nil, arguments.Error("raw has no arguments", arguments.Current())
		}
		wrapper, _, err := p.WrapUntil("endraw")
		if err != nil {
			return nil, err
		}
		before := source[:wrapper.Location.Pos]
		if strings.HasSuffix(strings.TrimSuffix(before, "\n"), "+%}") {
			return nil, arguments.Error("raw ends with %} or -%}", arguments.Current())
		}
		r := &raw{&nodes.Data{Data: &tokens.Token{}}}
		r.Trim.Left = strings.HasSuffix(before, "-%}\n")
		r.Trim.Right = strings.HasSuffix(wrapper.Location.Val, "-")
		if len(wrapper.Nodes) > 0 {
			var ok bool
			if r.Data, ok = wrapper.Nodes[0].(*nodes.Data); !ok || len(wrapper.Nodes) > 1 {
				return nil, p.Error("this cannot stand in raw", wrapper.Nodes[0].Position())
			}
		}
		if strings.HasSuffix(before, "%}\n") {
			r.Data.Data.Val = "\n" + r.Data.Data.Val
		}
		return r, nil
	}
}

func refuse(at *tokens.Token, format string, args ...any) error {
	e := &Error{Message: fmt.Sprintf(format, args...)}
	if at != nil && at.Line > 0 {
		e.Line, e.Column = at.Line, at.Col
	}
	return e
}

// literally is the remedy for braces that are not meant for Jinja2.
const literally = "put {% raw %} and {% endraw %} around braces that are meant literally"

// syntaxError tells where the library could not go on. Its own text quotes the template.
func syntaxError(source string, err error) error {
	const supported = "supported are {{ expressions }}, {# comments #}, and the statements if, raw and set; " + literally
	wrong := (*parser.SyntaxError)(nil)
	if !errors.As(err, &wrong) {
		wrong = &parser.SyntaxError{}
	}
	at := &tokens.Token{Line: wrong.Line, Col: wrong.Column}
	switch {
	case strings.Contains(wrong.Message, "unclosed comment"):
		// the lexer does not say where
		begin := strings.LastIndex(source, "{#")
		at.Line, at.Col = tokens.ReadablePosition(begin, source)
		return refuse(at, "{# opens a comment that nothing closes; %s", supported)
	case strings.HasPrefix(wrong.Message, "ControlStructure '"):
		return refuse(at, "there is no statement %.20q here; %s", wrong.Raw, supported)
	}
	return refuse(at, "this cannot be read; %s", supported)
}

var errTooLong = errors.New("output too long")

type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errTooLong
	}
	l.left -= len(p)
	return l.w.Write(p)
}
