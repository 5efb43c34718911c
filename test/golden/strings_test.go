package golden

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/source"
)

var (
	// words are separated by white space somewhere in a text that a person reads.
	words = regexp.MustCompile(`\pL.*\s+\S|\S\s+.*\pL`)
	// quoting and other verbs of fmt; what is put in does not matter, its quotes do.
	quoting = regexp.MustCompile(`%(\[\d+\])?[+#]?q`)
	verb    = regexp.MustCompile(`%[-+#0-9.*\[\]]*[a-zA-Z]`)
	// names that users write or meet: annotations, labels, groups, variables, files of a host.
	names = regexp.MustCompile(`^(?:[a-z0-9.…-]*slipway\.dev(?:/[A-Za-z0-9.…/-]+)?|SLIPWAY_[A-Z_]+|/(?:etc|var|run|usr|opt)/[A-Za-z0-9._/…-]+)$`)
)

// Every text with more than one word that the programs can print, log or write into an object,
// whatever package it is in, with … for what is put in.
func TestMessages(t *testing.T) {
	found := map[string]bool{}
	for _, pkg := range product(t) {
		for _, text := range textsOf(pkg) {
			if words.MatchString(text) {
				found[strconv.Quote(text)] = true
			}
		}
	}
	compareSet(t, "messages.txt", found, 3000)
}

// Names that are part of the interface, beside those of the API: see TestConstants.
func TestNames(t *testing.T) {
	found := map[string]bool{}
	for _, pkg := range product(t) {
		for _, text := range textsOf(pkg) {
			if names.MatchString(text) {
				found[text] = true
			}
		}
	}
	compareSet(t, "names.txt", found, 50)
}

// String constants of the API: types and reasons of conditions, phases, annotations, labels.
func TestConstants(t *testing.T) {
	found := map[string]bool{}
	for name, value := range constants(t) {
		found[name+" "+value] = true
	}
	compareSet(t, "constants.txt", found, 200)
}

// textsOf returns the strings of a package, each with what it is joined to.
func textsOf(pkg *source.Package) []string {
	var found []string
	for _, file := range pkg.Files {
		if file.Generated() {
			continue
		}
		tags := map[ast.Expr]bool{}
		ast.Inspect(file.Syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Field:
				if n.Tag != nil {
					tags[n.Tag] = true
				}
			case ast.Expr:
				if text, ok := textOf(n); ok && !tags[n] {
					found = append(found, text)
					return false
				}
			}
			return true
		})
	}
	return found
}

// textOf puts a text together that is written in pieces.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		text = verb.ReplaceAllString(quoting.ReplaceAllString(text, `"…"`), "…")
		return strings.ReplaceAll(text, "%%", "%"), err == nil
	case *ast.BinaryExpr:
		left, isLeft := textOf(e.X)
		right, isRight := textOf(e.Y)
		if e.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "…"
		}
		if !isRight {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

// constants are the exported string constants of the packages of api, by name. Versions of a
// group agree on those that they share.
func constants(t *testing.T) map[string]string {
	t.Helper()
	found, aliases := map[string]string{}, map[string]string{}
	for _, pkg := range product(t) {
		if !strings.HasPrefix(pkg.Folder, "api/") {
			continue
		}
		for _, file := range pkg.Files {
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok {
					return true
				}
				for i, value := range spec.Values {
					name := spec.Names[i].Name
					if text, ok := textOf(value); ok && ast.IsExported(name) {
						found[name] = text
					} else if alias, ok := value.(*ast.Ident); ok {
						aliases[name] = alias.Name
					}
				}
				return false
			})
		}
	}
	for name, alias := range aliases {
		if text := found[alias]; text != "" {
			found[name] = text
		}
	}
	return found
}
