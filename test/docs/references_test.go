package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

var write = flag.Bool("write", false, "write the references instead of comparing them")

func compare(t *testing.T, path string, want []byte) {
	t.Helper()
	path = filepath.Join(root, path)
	if *write {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale (%v): run `make docs`", path, err)
	}
}

// The reference of the agent's configuration is its type, with its defaults.
func TestAgentConfigurationReference(t *testing.T) {
	var page strings.Builder
	fmt.Fprintf(&page, "# Agent configuration reference\n\nThe file `%s` of a host, or the one that `slipway-agent -config` names, "+
		"written by `make docs` from the type that reads it.\nUnknown fields and fields given twice are refused.\n\n"+
		"```yaml\napiVersion: %s\nkind: %s\nnamespace: default\n```\n\n| field | type | default | meaning |\n|---|---|---|---|\n",
		config.DefaultPath, config.APIVersion, config.Kind)
	writeFields(t, &page, reflect.ValueOf(*config.Default()), "")
	compare(t, "docs/reference/agent-configuration.md", []byte(page.String()))
}

// writeFields writes a row for each field, and for those of a struct below its name.
func writeFields(t *testing.T, page *strings.Builder, configuration reflect.Value, below string) {
	t.Helper()
	comments := fieldComments(t, "internal/agent/run/config", configuration.Type().Name())
	for i := range configuration.NumField() {
		field := configuration.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		if comments[field.Name] == "" {
			t.Errorf("%s has no comment", field.Name)
		}
		if field.Type == reflect.TypeFor[config.Software]() {
			writeFields(t, page, configuration.Field(i), name+".")
			continue
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", below+name, typeName(field.Type), defaultOf(configuration.Field(i)), comments[field.Name])
	}
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return "duration"
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem())
	}
	return t.Kind().String()
}

func defaultOf(v reflect.Value) string {
	var text string
	switch value := v.Interface().(type) {
	case metav1.Duration:
		text = value.Duration.String()
	case []string:
		text = strings.Join(value, ", ")
	default:
		text = fmt.Sprint(value)
	}
	if text == "" {
		return "–"
	}
	return "`" + text + "`"
}

// fieldComments are those of a struct, in one line each, from the package's source.
func fieldComments(t *testing.T, dir, name string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, ident := range field.Names {
					comments[ident.Name] = strings.ReplaceAll(strings.TrimSpace(field.Doc.Text()), "\n", " ")
				}
			}
			return false
		})
	}
	if len(comments) == 0 {
		t.Fatalf("%s has no type %s", dir, name)
	}
	return comments
}

// The reference of the programs is what they print when asked for help.
func TestProgramsReference(t *testing.T) {
	if testing.Short() {
		t.Skip("links programs")
	}
	page := bytes.NewBufferString("# Flags of the programs\n\nWhat each program prints with `--help`, with a line for each flag, written by `make docs`. " +
		"The command line `slipway` has [a page of its own](cli.md).\n")
	var binary string
	for _, name := range []string{"slipway-agent", "slipway-agent join", "slipway-agent software", "slipway-agent uninstall", "slipway-manager", "slipway-lifecycle", "slipway-console", "slipway-bundle"} {
		program, command, _ := strings.Cut(name, " ")
		if command == "" {
			var err error
			if binary, err = shared.Program(t.Context(), "github.com/slipway-dev/slipway/cmd/"+program); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(command), "--help")...).CombinedOutput()
		if err != nil || len(out) < 200 {
			t.Fatalf("%s --help: %v\n%s", name, err, out)
		}
		help := strings.ReplaceAll(string(out), "\n    \t", "  ") // a flag's meaning has its own line
		fmt.Fprintf(page, "\n## %s\n\n```\n%s\n```\n", name, strings.TrimSpace(strings.ReplaceAll(help, "\t", "    ")))
	}
	compare(t, "docs/reference/programs.md", page.Bytes())
}

// Drawings are those of their text: both are as they were when one was made from
// the other.
func TestDrawings(t *testing.T) {
	dir := filepath.Join(root, "docs", "drawings")
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Fields(string(sums))
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil || len(files) < 2 || len(recorded) != 2*len(files) {
		t.Fatalf("%d files (%v), %d sums: run `make docs`", len(files), err, len(recorded)/2)
	}
	for i := 0; i < len(recorded); i += 2 {
		data, err := os.ReadFile(filepath.Join(dir, recorded[i+1]))
		if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != recorded[i] {
			t.Errorf("docs/drawings/%s is not what it was when the drawings were made (%v): run `make docs`", recorded[i+1], err)
		}
	}
}
