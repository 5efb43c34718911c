package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/internal/level"
)

var writeComments = flag.Bool("describe", false, "write comments.json from the sources of the types")

func allHooks(t testing.TB) *hook.Catalog {
	t.Helper()
	c := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(c), host.AddToCatalog(c)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCommentsAreCurrent reads the comments of all types that hooks consist of from
// their sources, and holds that the package has the same; with -describe it writes them.
func TestCommentsAreCurrent(t *testing.T) {
	level.Deep(t)
	types := map[reflect.Type]bool{}
	for _, d := range allHooks(t).All() {
		collect(reflect.TypeOf(d.NewRequest()), types)
		collect(reflect.TypeOf(d.NewResponse()), types)
	}
	r := &reader{t: t, packages: map[string]map[string]typeComment{}}
	want := map[string]typeComment{}
	for typ := range types {
		comment := r.read(typ.PkgPath())[typ.Name()]
		if docsOf(typ) != nil {
			comment = typeComment{Enum: comment.Enum} // it says the rest by itself
		}
		if !reflect.DeepEqual(comment, typeComment{}) {
			want[componentName(typ)] = comment
		}
	}
	data, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	if *writeComments {
		if err := os.WriteFile("comments.json", data, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(data, commentsJSON) {
		t.Error("the comments of the types have changed; run: go test ./openapi -run TestCommentsAreCurrent -args -describe")
	}
}

// collect adds the named types that t consists of, as far as they have no JSON form
// of their own.
func collect(t reflect.Type, types map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collect(t.Elem(), types)
		return
	case reflect.String:
		if t.PkgPath() != "" {
			types[t] = true
		}
		return
	case reflect.Struct:
	default:
		return
	}
	if types[t] || special(t) != nil {
		return
	}
	types[t] = true
	for field := range t.Fields() {
		if _, _, _, skip := jsonField(field); !skip {
			collect(field.Type, types)
		}
	}
}

// reader reads the comments of packages.
type reader struct {
	t        *testing.T
	packages map[string]map[string]typeComment
}

func (r *reader) read(path string) map[string]typeComment {
	r.t.Helper()
	if known, ok := r.packages[path]; ok {
		return known
	}
	dir, err := exec.CommandContext(r.t.Context(), "go", "list", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		r.t.Fatalf("where is %s: %v", path, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		r.t.Fatalf("%s has no sources: %v", path, err)
	}
	found, constants := map[string]typeComment{}, map[string][]string{}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				readTypes(general, found)
				readConstants(general, constants)
			}
		}
	}
	for name, c := range found {
		if len(c.Enum) == 1 && c.Enum[0] == enumOfConstants {
			c.Enum = constants[name]
			found[name] = c
		}
	}
	r.packages[path] = found
	return found
}

// enumOfConstants stands for the constants of the type.
const enumOfConstants = "+enum"

func readTypes(d *ast.GenDecl, into map[string]typeComment) {
	for _, spec := range d.Specs {
		declared, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		doc := declared.Doc
		if doc == nil {
			doc = d.Doc
		}
		c := typeComment{}
		c.Description, c.Enum = read(doc)
		if fields, ok := declared.Type.(*ast.StructType); ok {
			c.Fields = readFields(fields)
		}
		into[declared.Name.Name] = c
	}
}

func readFields(s *ast.StructType) map[string]fieldComment {
	found := map[string]fieldComment{}
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 {
			continue // embedded
		}
		name := field.Names[0].Name
		if field.Tag != nil {
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil {
				if tagged, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); tagged != "" {
					name = tagged
				}
			}
		}
		c := fieldComment{}
		c.Description, c.Enum = read(field.Doc)
		if c.Description != "" || len(c.Enum) > 0 {
			found[name] = c
		}
	}
	return found
}

func readConstants(d *ast.GenDecl, into map[string][]string) {
	if d.Tok != token.CONST {
		return
	}
	for _, spec := range d.Specs {
		value := spec.(*ast.ValueSpec)
		of, ok := value.Type.(*ast.Ident)
		if !ok || len(value.Values) != 1 {
			continue
		}
		if literal, ok := value.Values[0].(*ast.BasicLit); ok {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				into[of.Name] = append(into[of.Name], text)
			}
		}
	}
}

const enumMarker = "+kubebuilder:validation:Enum="

// read returns the text of a comment without the markers for tools and what is below
// a line of dashes, which is for developers, and the values that a marker lists.
func read(doc *ast.CommentGroup) (text string, enum []string) {
	var paragraphs []string
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			paragraphs = append(paragraphs, strings.Join(paragraph, " "))
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(doc.Text(), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "+enum":
			enum = []string{enumOfConstants}
		case strings.HasPrefix(line, enumMarker):
			for value := range strings.SplitSeq(strings.TrimPrefix(line, enumMarker), ";") {
				enum = append(enum, strings.Trim(value, `"`))
			}
		case strings.HasPrefix(line, "+"), strings.HasPrefix(line, "TODO"):
		case strings.HasPrefix(line, "---"):
			end()
			return strings.Join(paragraphs, "\n\n"), enum
		case line == "":
			end()
		default:
			if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") {
				line = "\n" + line
			}
			paragraph = append(paragraph, line)
		}
	}
	end()
	return strings.ReplaceAll(strings.Join(paragraphs, "\n\n"), " \n", "\n"), enum
}
