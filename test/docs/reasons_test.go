package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const apiPackage = "api/v1beta2"

var (
	// headed is what the comment of a group of reasons begins with.
	headed = regexp.MustCompile(`^Reasons (?:of the conditions? )?(.+?)(?:, besides (.+?))?\.(?:\s+|$)`)
	// single is what the comment of a reason without a group begins with.
	single = regexp.MustCompile(`^\w+Reason of the condition (\w+ of a \w+) means that `)
	// constant is the name of what the API exports besides types.
	constant = regexp.MustCompile(`\b[A-Z]\w+(?:Reason|Annotation)\b`)
)

// The reference of reasons is what the API package says of them: what each means and, when
// something is wrong, what to do.
func TestReasonsReference(t *testing.T) {
	api := parseConstants(t)
	var page strings.Builder
	page.WriteString("# Reasons of conditions\n\nWhat each reason in the status of an object means and, when something is wrong, what to do. " +
		"Written by `make docs` from the constants of\n`github.com/slipway-dev/slipway/" + apiPackage + "`, which programs compare with. " +
		"[Troubleshooting](../../troubleshooting.md) is an index by message.\n")
	page.WriteString("\n| condition | reason | constant | means |\n|---|---|---|---|\n")
	listed := 0
	for _, group := range api.groups {
		if group.intro != "" {
			fmt.Fprintf(&page, "| %s | | | %s |\n", group.heading, api.plain(group.intro))
		}
		for _, r := range group.reasons {
			listed++
			fmt.Fprintf(&page, "| %s | `%s` | `%s` | %s |\n", group.heading, api.value(r.name), r.name, api.plain(r.meaning))
		}
	}
	if listed < 80 {
		t.Errorf("only %d reasons are listed", listed)
	}
	for name := range api.values {
		if strings.HasSuffix(name, "Reason") && !strings.Contains(page.String(), "| `"+name+"` |") {
			t.Errorf("%s is in no group of reasons", name)
		}
	}
	compare(t, "docs/reference/api/reasons.md", []byte(page.String()))
}

// reasonGroup are the reasons of one condition.
type reasonGroup struct {
	heading, intro string
	reasons        []documented
}

// documented is a reason with what its comment says of it.
type documented struct{ name, meaning string }

// constants are those of the API package.
type constants struct {
	// values are strings in quotes, or the names of other constants.
	values map[string]string
	groups []reasonGroup
}

func parseConstants(t *testing.T) *constants {
	t.Helper()
	// in the order of their names, which is that of the kinds
	paths, err := filepath.Glob(filepath.Join(root, apiPackage, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	c := &constants{values: map[string]string{}}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.GenDecl); ok && d.Tok == token.CONST {
				c.add(t, d)
			}
		}
	}
	return c
}

func (c *constants) add(t *testing.T, d *ast.GenDecl) {
	t.Helper()
	group := reasonGroup{}
	doc := oneLine(d.Doc)
	for _, spec := range d.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok || len(value.Names) != 1 || len(value.Values) != 1 {
			continue
		}
		name := value.Names[0].Name
		switch v := value.Values[0].(type) {
		case *ast.BasicLit:
			c.values[name] = v.Value
		case *ast.Ident:
			c.values[name] = v.Name
		}
		if !strings.HasSuffix(name, "Reason") {
			continue
		}
		meaning, found := strings.CutPrefix(oneLine(value.Doc), name+" means that ")
		if !d.Lparen.IsValid() {
			if match := single.FindStringSubmatch(doc); match != nil {
				group.heading, meaning, found = match[1], doc[len(match[0]):], true
			}
		}
		if !found {
			t.Errorf("the comment of %s does not begin with what it means: %q", name, oneLine(value.Doc))
			continue
		}
		group.reasons = append(group.reasons, documented{name, capital(meaning)})
	}
	if len(group.reasons) == 0 {
		return
	}
	if match := headed.FindStringSubmatch(doc); d.Lparen.IsValid() && match != nil {
		group.heading, group.intro = capital(match[1]), doc[len(match[0]):]
		if match[2] != "" {
			group.intro = strings.TrimSpace("Besides " + match[2] + ". " + group.intro)
		}
	}
	if group.heading == "" {
		t.Errorf("the comment of the group of %s does not say of which condition they are: %q", group.reasons[0].name, doc)
	}
	c.groups = append(c.groups, group)
}

// value is what a constant is, whether it has a value of its own or another's.
func (c *constants) value(name string) string {
	for {
		text, err := strconv.Unquote(c.values[name])
		if err == nil {
			return text
		}
		name = c.values[name]
	}
}

// plain has the values of constants where a comment has their names.
func (c *constants) plain(comment string) string {
	return constant.ReplaceAllStringFunc(comment, func(name string) string {
		if c.values[name] == "" {
			return name
		}
		return "`" + c.value(name) + "`"
	})
}

func oneLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// capital begins a sentence, but not one that begins with the name of a field.
func capital(s string) string {
	if strings.Contains(strings.Fields(s)[0], ".") {
		return s
	}
	first := []rune(s)
	first[0] = unicode.ToUpper(first[0])
	return string(first)
}
