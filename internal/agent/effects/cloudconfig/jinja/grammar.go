package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// misplaced finds what cannot stand where it stands within a tag. The library passes over characters that it has no
// meaning for, ends of lines and the tail of a number, takes two strings that Jinja2 joins for two
// arguments, does without a comma or an "is", and reads on behind a filter as if it were in parentheses.
func misplaced(source string, settings *config.Config) *tokens.Token {
	tag := grammar{}
	for stream := tokens.LexAll(source, settings); !stream.End(); stream.Next() {
		at := stream.Current()
		switch at.Type {
		case tokens.Data, tokens.CommentBegin, tokens.CommentEnd, tokens.Error:
			continue
		case tokens.VariableBegin, tokens.BlockBegin:
			tag = grammar{last: at.Type}
			continue
		default:
		}
		before, _ := utf8.DecodeLastRuneInString(strings.TrimRight(source[:at.Pos], " \t"))
		first, _ := utf8.DecodeRuneInString(source[at.Pos:])
		if !hasMeaning(before) || !hasMeaning(first) || !tag.takes(at) {
			return at
		}
		tag.last = at.Type
	}
	return nil
}

// hasMeaning says whether a character can stand in an expression.
func hasMeaning(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune(`_'",|+-~:.%/<>*!=(){}[]`, c)
}

// grammar follows a tag token by token: values, operators between them, and brackets that match.
type grammar struct {
	last tokens.Type
	open []bracket
	// isValue says that what was read last ends a value; isNamed, that this is a filter or a test, behind
	// which there is no attribute and no index.
	isValue, isNamed bool
	// alone is a statement without an expression; unknown one that the parser is left to name.
	alone, unknown bool
	// test says that the name of a test is next.
	test bool
}

// bracket is one that is open. It is within a value when it is the arguments of a call, or an index.
type bracket struct {
	closing         tokens.Type
	within, isNamed bool
}

var brackets = map[tokens.Type]tokens.Type{
	tokens.LeftParenthesis: tokens.RightParenthesis, tokens.LeftBracket: tokens.RightBracket, tokens.LeftBrace: tokens.RightBrace,
}

// takes says whether a token can stand behind those before it.
func (g *grammar) takes(at *tokens.Token) bool {
	test := g.test
	g.test = at.Type == tokens.Is || test && at.Type == tokens.Not && g.last == tokens.Is
	switch {
	case g.unknown:
		return true
	case !g.isNameWhereDue(at.Type, test):
		return false
	case g.last == tokens.Not && g.isValue:
		g.isValue = false
		return at.Type == tokens.In // "a not in b"
	default:
		return g.takesToken(at, test)
	}
}

// isNameWhereDue holds that a filter, a test and an attribute have a name.
func (g *grammar) isNameWhereDue(kind tokens.Type, test bool) bool {
	switch {
	case g.last == tokens.Pipe || test && !g.test:
		return kind == tokens.Name || test && kind == tokens.In
	case g.last == tokens.Dot:
		return kind == tokens.Name || kind == tokens.Integer
	default:
		return true
	}
}

func (g *grammar) takesToken(at *tokens.Token, test bool) bool {
	switch at.Type {
	case tokens.Name:
		return g.name(at.Val, test)
	case tokens.String, tokens.Integer, tokens.Float:
		// Python refuses 007, also where it is not needed
		isOctal := len(at.Val) > 1 && at.Val[0] == '0' && unicode.IsDigit(rune(at.Val[1]))
		return g.value() && !isOctal
	case tokens.Not:
		return true // a value before it is looked at with the next token
	case tokens.Is, tokens.In:
		wasValue := g.isValue
		g.isValue = false
		return wasValue || test
	case tokens.LeftParenthesis, tokens.LeftBracket, tokens.LeftBrace:
		return g.opens(at.Type)
	case tokens.RightParenthesis, tokens.RightBracket, tokens.RightBrace:
		return g.closes(at.Type)
	case tokens.VariableEnd, tokens.BlockEnd:
		return g.isValue && len(g.open) == 0 || g.alone && g.last == tokens.Name
	default:
		return g.operator(at.Type)
	}
}

func (g *grammar) name(name string, test bool) bool {
	if g.last == tokens.BlockBegin {
		g.alone = slices.Contains([]string{"else", "endif", "raw", "endraw"}, name)
		g.unknown = !g.alone && !slices.Contains([]string{"if", "elif", "set"}, name)
		return true
	}
	if g.last != tokens.Dot {
		switch name {
		case "if", "else":
			wasValue := g.isValue
			g.isValue = false
			return wasValue
		case "and", "in", "is", "not", "or": // without a space behind them, so that they are names to the library
			return false
		}
	}
	isNamed := test || g.last == tokens.Pipe
	taken := g.value() && !unicode.IsDigit(rune(name[0]))
	g.isNamed = isNamed
	return taken
}

// value is one that begins and ends here.
func (g *grammar) value() bool {
	wasValue := g.isValue
	g.isValue, g.isNamed = true, false
	return !wasValue && !g.alone
}

func (g *grammar) opens(kind tokens.Type) bool {
	if g.alone || g.isValue && (kind == tokens.LeftBrace || kind == tokens.LeftBracket && g.isNamed) {
		return false
	}
	g.open = append(g.open, bracket{closing: brackets[kind], within: g.isValue, isNamed: g.isNamed})
	g.isValue, g.isNamed = false, false
	return true
}

func (g *grammar) closes(kind tokens.Type) bool {
	if len(g.open) == 0 {
		return false
	}
	b := g.open[len(g.open)-1]
	g.open = g.open[:len(g.open)-1]
	isIndex := b.within && kind == tokens.RightBracket
	isEmpty := g.last == tokens.LeftParenthesis || g.last == tokens.LeftBracket || g.last == tokens.LeftBrace
	taken := g.isValue || !isIndex && (isEmpty || g.last == tokens.Comma) || isIndex && g.last == tokens.Colon
	g.isValue, g.isNamed = true, b.isNamed
	return b.closing == kind && taken
}

func (g *grammar) operator(kind tokens.Type) bool {
	wasValue, wasNamed := g.isValue, g.isNamed
	g.isValue, g.isNamed = false, false
	inner := bracket{}
	if len(g.open) > 0 {
		inner = g.open[len(g.open)-1]
	}
	isIndex := inner.within && inner.closing == tokens.RightBracket
	switch kind {
	case tokens.Addition, tokens.Subtraction:
		return true
	case tokens.Dot:
		return wasValue && !wasNamed
	case tokens.Colon:
		return isIndex || wasValue && inner.closing == tokens.RightBrace
	case tokens.Comma:
		return wasValue && len(g.open) > 0 && !isIndex
	case tokens.Assign: // of an argument, or of set
		return g.last == tokens.Name && (len(g.open) == 0 || inner.within && inner.closing == tokens.RightParenthesis)
	case tokens.Semicolon:
		return false
	default:
		return wasValue && !slices.Contains([]tokens.Type{tokens.RawBegin, tokens.RawEnd}, kind)
	}
}
