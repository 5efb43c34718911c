package providercheck_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

// reading is a text in a template, and what clusterctl's own code makes of it.
type reading struct {
	name string
	// value is a YAML value, put behind a key; top stands before the whole file.
	value, top string
	// clusterctl is what comes out, "ERROR" when clusterctl refuses the file.
	clusterctl any
	// lost says that an object of the file is none when it comes out, or does not come out; demanded, that clusterctl
	// takes the file once the variable is set.
	lost, demanded bool
	// rule finds it; empty when clusterctl leaves the text as it is.
	rule string
}

var readings = []reading{
	{name: "a default at one of two places", value: `"${FOO_PORT}"`, clusterctl: "", rule: "variable-empty"},
	{name: "a default at the first place only", value: `{a: "${FOO_SIZE:=small}", b: "${FOO_SIZE}"}`, clusterctl: map[string]any{"a": "small", "b": ""}, rule: "variable-empty"},
	{name: "a default in the second place", value: `{a: "${FOO_SIZE}", b: "${FOO_SIZE:=small}"}`, clusterctl: "ERROR", rule: "variable-default", demanded: true},
	{name: "two defaults", value: `{a: "${FOO_SIZE:=small}", b: "${FOO_SIZE:=large}"}`, clusterctl: map[string]any{"a": "small", "b": "large"}, rule: "variable-default"},
	{name: "an empty default", value: `"${FOO_SIZE:=}"`, clusterctl: "ERROR", rule: "variable-default", demanded: true},
	{name: "a nested default", value: `"${FOO_SIZE:=${FOO_DEFAULT}}"`, clusterctl: "", rule: "variable-empty"},
	{name: "a nested default behind dollars", value: `"${FOO_SIZE:-$${FOO_DEFAULT}}"`, clusterctl: "$", rule: ""},
	{name: "a nested default of a nested default", value: `"${FOO_SIZE:=${FOO_A:=${FOO_B}}}"`, clusterctl: "", rule: "variable-empty"},
	{name: "a nested default with a default", value: `"${FOO_SIZE:=${FOO_A:=b}}"`, clusterctl: "b"},
	{name: "a nested default that is demanded", value: `"${FOO_SIZE:=${CLUSTER_NAME}}"`, clusterctl: "c"},
	{name: "a default with an equals sign", value: `"${FOO_SIZE=small}"`, clusterctl: "small"},
	{name: "a part of what is not set", value: `"${FOO_SIZE%.*}"`, clusterctl: "", rule: "variable-empty"},
	{name: "a removal of what is not set", value: `"${FOO_SIZE/small/}"`, clusterctl: "", rule: "variable-empty"},
	{name: "a removal at the end of a word", value: `"secrets${FOO_SIZE/small/}"`, clusterctl: "secrets"},
	{name: "a replacement at the end of a word", value: `"secrets${FOO_SIZE/small/large}"`, clusterctl: "secrets", rule: "variable-empty"},
	{name: "a message for what is not set", value: `"${FOO_SIZE:?must be set}"`, clusterctl: "must be set", rule: "variable-function"},
	{name: "if it is set", value: `"debug=${FOO_DEBUG:+on}"`, clusterctl: "debug=on", rule: "variable-function"},
	{name: "without a colon", value: `"${FOO_SIZE-small}"`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a name in a name", value: `"${FOO$BAR}"`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "no end", value: `"${FOO"`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "the last character", value: `"${CLUSTER_NAME: -1}"`, clusterctl: "c", rule: "variable-function"},
	{name: "the last character of what has a default", value: `"${FOO_SIZE:a}"`, clusterctl: "", rule: "variable-function"},
	{name: "a pattern in a replacement", value: `"${CLUSTER_NAME/c*/d}"`, clusterctl: "c", rule: "variable-function"},
	{name: "a replacement", value: `"${CLUSTER_NAME//c/d}"`, clusterctl: "d"},
	{name: "small letters", value: `"${foo_size:=a}"`, clusterctl: "a", rule: "variable-case"},
	{name: "two dollars", value: `"echo $$ > /run/me.pid"`, clusterctl: "echo $ > /run/me.pid", rule: "variable-dollar"},
	{name: "three dollars", value: `"$$$"`, clusterctl: "$$", rule: "variable-dollar"},
	{name: "four dollars", value: `"$$$$"`, clusterctl: "$$"},
	{name: "an escaped variable", value: `"$${DIR} $(id -u) $DIR"`, clusterctl: "${DIR} $(id -u) $DIR"},
	{name: "a dollar before a variable", value: `"$$${CLUSTER_NAME}"`, clusterctl: "$c"},
	{name: "spaces", value: `"${ CLUSTER_NAME }"`, clusterctl: "c", rule: "variable-format"},

	{name: "a default that is a comment", value: `${FOO_COLOUR:=#x}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default with a comment", value: `${FOO_SIZE:=a # b}`, clusterctl: "a", rule: "variable-text"},
	{name: "a number with a comment", value: `${FOO_SIZE:=5 #5}`, clusterctl: 5.0, rule: "variable-text"},
	{name: "a default that makes a comment of what follows", value: `a${FOO_SIZE:= #}b`, clusterctl: "a", rule: "variable-text"},
	{name: "a default without a blank before its number sign", value: `${FOO_SIZE:=a#b}`, clusterctl: "a#b"},
	{name: "a default that is a comment in quotes", value: `"${FOO_COLOUR:=#x}"`, clusterctl: "#x"},
	{name: "a default that is a comment in a block", value: "|-\n    ${FOO_COLOUR:=#x} y", clusterctl: "#x y"},
	{name: "a nested default that is a comment", value: `${FOO_COLOUR:=${FOO_OTHER:=#x}}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default with a dash that is a comment", value: `${FOO_COLOUR:-#x}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default with an equals sign that is a comment", value: `${FOO_COLOUR=#x}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default that is a field", value: "\n  - ${FOO_SIZE:=a: b}", clusterctl: []any{map[string]any{"a": "b"}}, rule: "variable-text"},
	{name: "a default that is no value", value: `${FOO_SIZE:=a: b}`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default that ends with a colon", value: "\n  - ${FOO_SIZE:=a:}", clusterctl: []any{map[string]any{"a": nil}}, rule: "variable-text"},
	{name: "a default that is an item", value: "\n  - ${FOO_SIZE:=- a}", clusterctl: []any{[]any{"a"}}, rule: "variable-text"},
	{name: "a default that is the question of a field", value: "\n  - ${FOO_SIZE:=? a}", clusterctl: []any{map[string]any{"a": nil}}, rule: "variable-text"},
	{name: "a default that is an anchor", value: `${FOO_SIZE:=&a}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default behind an anchor", value: `${FOO_SIZE:=&a b}`, clusterctl: "b", rule: "variable-text"},
	{name: "a default that is an alias", value: `${FOO_SIZE:=*a}`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default that is an alias of the file", value: `{a: &a 1, b: ${FOO_SIZE:=*a}}`, clusterctl: map[string]any{"a": 1.0, "b": 1.0}, rule: "variable-text"},
	{name: "a default that is a tag", value: `${FOO_SIZE:=!a}`, clusterctl: "", rule: "variable-text"},
	{name: "a default behind a tag", value: `${FOO_SIZE:=!a b}`, clusterctl: "b", rule: "variable-text"},
	{name: "a default that begins with a percent sign", value: `${FOO_SIZE:=%a}`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default that begins with an at sign", value: `${FOO_SIZE:=@a}`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default that begins with a backtick", value: "${FOO_SIZE:=`a}", clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default that begins a block", value: `${FOO_SIZE:=|}`, clusterctl: "", rule: "variable-text"},
	{name: "a default that is a home", value: `${FOO_DIR:=~}`, clusterctl: nil, rule: "variable-text"},
	{name: "a default below a home", value: `${FOO_DIR:=~/a}`, clusterctl: "~/a"},
	{name: "a default of null", value: `${FOO_SIZE:=null}`, clusterctl: nil},
	{name: "a default of a blank", value: `${FOO_SIZE:= }`, clusterctl: nil},
	{name: "a default with blanks", value: `${FOO_SIZE:= a }`, clusterctl: "a", rule: "variable-text"},
	{name: "a default with blanks in quotes", value: `"${FOO_SIZE:= a }"`, clusterctl: " a "},
	{name: "a default of two lines", value: "${FOO_SIZE:=a\n    b}", clusterctl: "a b", rule: "variable-text"},
	{name: "a default of two fields", value: "${FOO_SIZE:=a\n  other: b}", clusterctl: "a", rule: "variable-text"},
	{name: "a default of two lines in quotes", value: "\"${FOO_SIZE:=a\n    b}\"", clusterctl: "a b", rule: "variable-text"},
	{name: "a default of words", value: `${FOO_SIZE:=a b, c; d=e:f}`, clusterctl: "a b, c; d=e:f"},
	{name: "a default of a port", value: `${FOO_ADDRESS:=:8443}`, clusterctl: ":8443"},
	{name: "a default of an address", value: `${FOO_ADDRESS:=https://[::1]:8443/?a=b&c#d}`, clusterctl: "https://[::1]:8443/?a=b&c#d"},
	{name: "a default in quotes of its own", value: `${FOO_SIZE:="a: b"}`, clusterctl: "a: b"},
	{name: "a default in single quotes of its own", value: `${FOO_SIZE:='#a'}`, clusterctl: "#a"},
	{name: "an empty default in quotes", value: `${FOO_SIZE:=""}`, clusterctl: ""},
	{name: "a default of a list", value: `${FOO_LIST:=[a, b]}`, clusterctl: []any{"a", "b"}},
	{name: "a default of an object", value: `${FOO_LIST:={a: b}`, clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default of items", value: `[${FOO_LIST:=a, b}]`, clusterctl: []any{"a", "b"}},
	{name: "a default of nothing in a list", value: `[${FOO_LIST:= }]`, clusterctl: []any{}},
	{name: "a default with quotes in quotes", value: `"${FOO_SIZE:=\"a\"}"`, clusterctl: `"a"`},
	{name: "a default with single quotes in single quotes", value: `'${FOO_SIZE:=it''s}'`, clusterctl: "it's"},
	{name: "a path of Windows as a default", value: `"${FOO_DIR:=C:\\temp}"`, clusterctl: `C:\temp`},
	{name: "a tabulator in a path of Windows", value: `"${FOO_DIR:=C:\temp}"`, clusterctl: "C:\temp", rule: "variable-text"},
	{name: "a default in the name of a field", value: `{"${FOO_KEY:=a: b}": c, d: e}`, clusterctl: map[string]any{"a: b": "c", "d": "e"}},
	{name: "a default that ends the name of a field", value: "\n    ${FOO_KEY:=a: b}-x: c", clusterctl: "ERROR", rule: "file-readable"},
	{name: "a default in a shell's comment", value: "|\n    # ${FOO_SIZE:=#x}\n", clusterctl: "# #x\n"},
	{name: "a line that is off", value: "a\n  ${FOO_ON:=#}other: b", clusterctl: "a"},
	{name: "a line for a field", value: "\n    ${FOO_FIELD:=a: b}", clusterctl: map[string]any{"a": "b"}},
	{name: "a replacement by a comment", value: `a${CLUSTER_NAME/c/ #}`, clusterctl: "a", rule: "variable-text"},
	{name: "two defaults of which one is a comment", value: `{a: "${FOO_A:=#x}", b: ${FOO_B:=z}}`, clusterctl: map[string]any{"a": "#x", "b": "z"}},

	{name: "no", value: "no", clusterctl: false, rule: "yaml-value"},
	{name: "y", value: "y", clusterctl: true, rule: "yaml-value"},
	{name: "OFF", value: "OFF", clusterctl: false, rule: "yaml-value"},
	{name: "a default of yes", value: "${FOO_SIZE:=yes}", clusterctl: true, rule: "yaml-value"},
	{name: "True", value: "True", clusterctl: true},
	{name: "quoted", value: `"no"`, clusterctl: "no"},
	{name: "a name of a field", value: "{on: a}", clusterctl: map[string]any{"true": "a"}, rule: "yaml-value"},
	{name: "a number as the name of a field", value: "{010: a}", clusterctl: map[string]any{"8": "a"}, rule: "yaml-value"},
	{name: "octal", value: "0755", clusterctl: 493.0, rule: "yaml-value"},
	{name: "octal of YAML 1.2", value: "0o17", clusterctl: 15.0, rule: "yaml-value"},
	{name: "no octal", value: "08", clusterctl: 8.0, rule: "yaml-value"},
	{name: "hexadecimal", value: "0x1F", clusterctl: 31.0, rule: "yaml-value"},
	{name: "binary", value: "0b11", clusterctl: 3.0, rule: "yaml-value"},
	{name: "underscores", value: "1_000", clusterctl: 1000.0, rule: "yaml-value"},
	{name: "an exponent", value: "1e3", clusterctl: 1000.0, rule: "yaml-value"},
	{name: "a version", value: "1.30", clusterctl: 1.3, rule: "yaml-value"},
	{name: "a large number", value: "9007199254740993", clusterctl: 9007199254740992.0, rule: "yaml-value"},
	{name: "infinity", value: ".inf", clusterctl: "ERROR", rule: "file-readable"},
	{name: "a number", value: "6443", clusterctl: 6443.0},
	{name: "a telephone number", value: "+4930123456", clusterctl: 4930123456.0, rule: "yaml-value"},
	{name: "a telephone number with blanks", value: "+49 30 123456", clusterctl: "+49 30 123456"},
	{name: "a date", value: "2026-12-01", clusterctl: "2026-12-01"},
	{name: "a time", value: "12:30:45", clusterctl: "12:30:45"},
	{name: "a field twice", value: "{a: 1, a: 2}", clusterctl: map[string]any{"a": 2.0}, rule: "yaml-repeated"},
	{name: "the same field twice", value: "{a: 1, a: 1}", clusterctl: map[string]any{"a": 1.0}, rule: "yaml-repeated"},
	{name: "a merge behind a field", value: "{m: &m {a: 1}, b: {a: 2, <<: *m}}", clusterctl: map[string]any{"m": map[string]any{"a": 1.0}, "b": map[string]any{"a": 1.0}}, rule: "yaml-value"},
	{name: "a merge before a field", value: "{m: &m {a: 1}, b: {<<: *m, a: 2}}", clusterctl: map[string]any{"m": map[string]any{"a": 1.0}, "b": map[string]any{"a": 2.0}}},
	{name: "an alias", value: "{m: &m {a: 1}, b: *m}", clusterctl: map[string]any{"m": map[string]any{"a": 1.0}, "b": map[string]any{"a": 1.0}}},
	{name: "a directive of YAML", value: "s", top: "%YAML 1.1\n---\n", clusterctl: "ERROR", rule: "file-readable"},
	{name: "text behind a separator", value: "s", top: "--- {a: b}\n---\n", clusterctl: "ERROR", rule: "file-readable"},
	{name: "a comment behind a separator", value: "s", top: "--- # first\n", clusterctl: "s"},
	{name: "a document of comments", value: "s", top: "# nothing\n---\n---\n", clusterctl: "s"},
	{name: "a byte order mark", value: "s", top: "\ufeff", clusterctl: "s"},
	{name: "a list of objects", value: "s", top: "- a\n---\n", clusterctl: "ERROR", rule: "file-readable"},
	{name: "two objects in a document", value: "s", top: "{apiVersion: v1, kind: A, metadata: {name: a}}\n{apiVersion: v1, kind: B, metadata: {name: b}}\n---\n", clusterctl: "s", rule: "yaml-dropped", lost: true},
	{name: "an end of a document", value: "s", top: "apiVersion: v1\nkind: A\nmetadata: {name: a}\n...\nkind: B\n---\n", clusterctl: "s", rule: "yaml-dropped", lost: true},
	{name: "two objects without a separator", value: "s\nkind: FooCluster\nmetadata: {name: a}\napiVersion: infrastructure.cluster.x-k8s.io/v1\nspec: {value: t}", clusterctl: "t", rule: "yaml-dropped", lost: true},
	{name: "an empty object", value: "s", top: "{}\n---\n", clusterctl: "s", rule: "object-identity", lost: true},
	{name: "a tab", value: "\n\ta: b", clusterctl: "ERROR", rule: "file-readable"},
	{name: "ends of lines of Windows", value: "|\r\n    a\r\n    b\r\n", clusterctl: "a\nb\n"},
	{name: "a NUL byte", value: "\"a\x00b\"", clusterctl: "ERROR", rule: "file-readable"},
}

// TestReadings holds that each text is found which clusterctl empties, changes or cannot read, and
// nothing that it does not change; and that the table is right, by clusterctl's own code.
func TestReadings(t *testing.T) {
	for _, c := range readings {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := c.release(t)
			if got := clusterctlReads(t, filepath.Join(dir, template)); !reflect.DeepEqual(got, c.clusterctl) {
				t.Errorf("the table is wrong: clusterctl makes %#v of it", got)
			}
			r, err := providercheck.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			all := providercheck.Check(r)
			isError := slices.ContainsFunc(all, func(f providercheck.Finding) bool { return f.File == template && f.Level == providercheck.Must })
			if fails := (c.clusterctl == "ERROR" && !c.demanded) || c.lost; isError != fails {
				t.Errorf("clusterctl fails or loses an object: %t; an error is found: %t: %+v", fails, isError, all)
			}
			findings := slices.DeleteFunc(all, func(f providercheck.Finding) bool {
				// An object that is cut off lacks more than this table wants.
				return f.File != template || c.rule != "" && f.Rule != c.rule
			})
			switch {
			case c.rule == "" && len(findings) > 0:
				t.Errorf("clusterctl does not change it, and a finding says %+v", findings)
			case c.rule != "" && len(findings) == 0:
				t.Errorf("clusterctl makes %#v of %q, and %s finds nothing", c.clusterctl, c.top+c.value, c.rule)
			case c.rule != "" && findings[0].Line == 0:
				t.Errorf("no line: %+v", findings[0])
			}
		})
	}
}

// TestSmallLettersWithADefault holds that nothing is said to be demanded that has a default.
func TestSmallLettersWithADefault(t *testing.T) {
	r, err := providercheck.Load(reading{value: `"${foo_size:=a}"`}.release(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range providercheck.Check(r) {
		if want := "clusterctl takes the environment variable FOO_SIZE for foo_size"; f.Rule == "variable-case" && f.Message != want {
			t.Errorf("found %+v, want %q", f, want)
		}
	}
}

// release is the good one with the value in the last field of its FooCluster.
func (c reading) release(t *testing.T) string {
	t.Helper()
	dir := plant(t, violation{})
	change(t, dir, template, "    port: ${FOO_PORT:=6443}\n", "    port: ${FOO_PORT:=6443}\n  value: "+strings.TrimSuffix(c.value, "\n")+"\n")
	data, err := os.ReadFile(filepath.Join(dir, template))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, template), append([]byte(c.top), data...), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// clusterctlReads is the value as clusterctl's own code reads it, or "ERROR".
func clusterctlReads(t *testing.T, path string) any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reader := config.NewMemoryReader()
	for name, value := range map[string]string{"CLUSTER_NAME": "c", "NAMESPACE": "ns", "FOO_ENDPOINT": "e", "KUBERNETES_VERSION": "v1.36.0"} {
		reader.Set(name, value)
	}
	client, err := config.New(t.Context(), "", config.InjectReader(reader))
	if err != nil {
		t.Fatal(err)
	}
	made, err := repository.NewTemplate(repository.TemplateInput{
		RawArtifact: data, ConfigVariablesClient: client.Variables(), Processor: yamlprocessor.NewSimpleProcessor(), TargetNamespace: "ns",
	})
	if err != nil {
		return "ERROR"
	}
	for _, o := range made.Objs() {
		if o.GetKind() == "FooCluster" {
			value, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "value")
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return "ERROR" // the object is not there any more
}

// change replaces all of a text in a file.
func change(t *testing.T, dir, file, old, changed string) {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s lacks %q", file, old)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, changed)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestComponentsAsClusterctlMakesThem compares the rules with clusterctl's own making of components:
// what it refuses is an error.
func TestComponentsAsClusterctlMakesThem(t *testing.T) {
	for _, v := range violations {
		if v.file != components || v.ipam {
			continue
		}
		dir := plant(t, v)
		data, err := os.ReadFile(filepath.Join(dir, components))
		if err != nil {
			continue // the file is removed
		}
		reader := config.NewMemoryReader()
		if _, err := reader.AddProvider("foo", "InfrastructureProvider", "https://foo.com/infrastructure-foo/v0.1.0/"+components); err != nil {
			t.Fatal(err)
		}
		client, err := config.New(t.Context(), "", config.InjectReader(reader))
		if err != nil {
			t.Fatal(err)
		}
		provider, err := client.Providers().Get("foo", "InfrastructureProvider")
		if err != nil {
			t.Fatal(err)
		}
		_, refused := repository.NewComponents(repository.ComponentsInput{
			Provider: provider, ConfigClient: client, Processor: yamlprocessor.NewSimpleProcessor(), RawYaml: data,
			Options: repository.ComponentsOptions{Version: "v0.1.0"},
		})
		r, err := providercheck.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		isError := func(f providercheck.Finding) bool { return f.Level == providercheck.Must }
		unset := regexp.MustCompile(`value for variables|target namespace can't be defaulted`)
		if refused != nil && !unset.MatchString(refused.Error()) && !slices.ContainsFunc(providercheck.Check(r), isError) {
			t.Errorf("%s, %q in place of %q: clusterctl refuses the components, and there is no error: %v", v.rule, v.changed, v.old, refused)
		}
	}
}

// TestLoadingEndsWithItsContext holds that a large file is not read to its end after a signal.
func TestLoadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (providercheck.Source{Place: good}).Releases(ctx); err == nil {
		t.Error("a release is read although the context has ended")
	}
}

// TestManyVariables holds that a file with many variables is read in one pass: each of 40,000 is
// found with its line. (With a search of the file for each, this takes hours.)
func TestManyVariables(t *testing.T) {
	const n = 40_000
	dir := plant(t, violation{})
	path := filepath.Join(dir, template)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Count(string(data), "\n") + 1
	for i := range n {
		data = fmt.Appendf(data, "  field%d: ${OTHER_%d}\n", i, i)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]bool{}
	for _, f := range providercheck.Check(r) {
		if f.Rule == "template-variable-prefix" {
			lines[f.Line] = true
		}
	}
	if len(lines) != n || !lines[first] || !lines[first+n-1] {
		t.Errorf("%d lines are found, want %d from line %d", len(lines), n, first)
	}
}

// TestManyObjects holds that what rules ask for each object costs the same however many there are: a search of all
// for each made a check of twice the objects take five times the time.
func TestManyObjects(t *testing.T) {
	cost := func(n int) float64 {
		var objects strings.Builder
		for i := range n {
			fmt.Fprintf(&objects, "---\n{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a%d}}\n", i)
			fmt.Fprintf(&objects, "---\n{apiVersion: v1, kind: Service, metadata: {name: a%d}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: a%d}}\n", i, i)
		}
		r, err := providercheck.Load(plant(t, violation{file: components, old: "---\n", changed: objects.String() + "---\n"}))
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, r.LookUp)
	}
	if few, many := cost(1), cost(300); few != many {
		t.Errorf("a look-up allocates %v times among a few objects, and %v times among hundreds", few, many)
	}
}

// TestLineOfAVariable holds that a finding has the line of its variable, behind escaped ones, nested
// ones and one with spaces.
func TestLineOfAVariable(t *testing.T) {
	dir := plant(t, violation{})
	change(t, dir, template, "    port: ${FOO_PORT:=6443}\n", `    port: ${FOO_PORT:=6443}
    a: $${DIR} $$${FOO_A} $$$${B}
    b: "${FOO_B:=${FOO_A}} ${ FOO_C }"
    c: "${FOO_D:+on}"
`)
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range providercheck.Check(r) {
		if f.Rule == "variable-function" && f.Line == 26 {
			return
		}
	}
	t.Errorf("found %+v", providercheck.Check(r))
}
