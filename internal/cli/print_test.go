package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func write[T any](cmd *cobra.Command, l list[T], f listFlags) error {
	return showList(cmd, f, func(context.Context) (list[T], error) { return l, nil })
}

// A list is shown with kubectl's print flags as kubectl shows one: templates find its rows in "items",
// and an order holds in every format.
func TestPrintFlags(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "template")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hosts := hostsList([]hostRow{
		{Namespace: "b", Name: "host-2", Phase: "Running", PID: 10, Addresses: []string{"192.0.2.2", "192.0.2.3"}},
		{Namespace: "a", Name: "host-1", Phase: "Available\x1b[2J", PID: 9},
		{Namespace: "c", Name: "host-3"},
	})
	for _, c := range []struct {
		flags listFlags
		want  string
	}{
		{listFlags{output: outputName, sortBy: ".name"}, "host.infrastructure.slipway.dev/host-1\nhost.infrastructure.slipway.dev/host-2\nhost.infrastructure.slipway.dev/host-3\n"},
		{listFlags{output: "jsonpath={.items[*].name}", sortBy: "pid"}, "host-3 host-1 host-2"},
		{listFlags{output: "jsonpath={.items[*].phase}", sortBy: "{.phase}"}, "Available^[[2J Running"},
		{listFlags{output: "jsonpath-file=" + file(`{range .items[*]}{.name}{"\n"}{end}`)}, "host-2\nhost-1\nhost-3\n"},
		{listFlags{output: "go-template={{range .items}}{{.namespace}}/{{.name}} {{end}}"}, "b/host-2 a/host-1 c/host-3 "},
		{listFlags{output: "go-template-file=" + file(`{{len .items}}`)}, "3"},
		{listFlags{output: "custom-columns=HOST:.name,IPS:{.addresses[*]},PID:pid"}, "HOST     IPS                   PID\nhost-2   192.0.2.2,192.0.2.3   10\nhost-1   <none>                9\nhost-3   <none>                <none>\n"},
		{listFlags{output: "custom-columns-file=" + file("HOST PID\n.name pid\n"), noHeaders: true}, "host-2   10\nhost-1   9\nhost-3   <none>\n"},
		{listFlags{output: outputTable, noHeaders: true, sortBy: "namespace"}, "a          host-1  Unknown                         \nb          host-2  Unknown                         192.0.2.2\nc          host-3  Unknown                         \n"},
	} {
		var out strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		if err := write(cmd, hosts, c.flags); err != nil || out.String() != c.want {
			t.Errorf("%+v: %v, got %q, want %q", c.flags, err, out.String(), c.want)
		}
	}
	// What is no list is one row, and has no items.
	for format, want := range map[string]string{"jsonpath={.a.b}": "1", "custom-columns=X:.a.b": "X\n1\n"} {
		var out strings.Builder
		shown := result{object: map[string]any{"a": map[string]int{"b": 1}}}
		if err := shown.write(&out, format); err != nil || out.String() != want {
			t.Errorf("%s: %v, got %q, want %q", format, err, out.String(), want)
		}
	}
}

// A template that cannot be used is refused before anything is done, which no cluster is there for.
func TestTemplatesAreRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", missing)
	for _, c := range []struct{ flags, want string }{
		{"-o jsonpath={.items[", "--output jsonpath: "},
		{"-o jsonpath", "--output jsonpath: want something behind it"},
		{"-o go-template={{", "--output go-template: "},
		{"-o go-template-file=" + missing, "--output go-template-file: open "},
		{"-o custom-columns=NAME", `--output custom-columns: "NAME": want HEADER:PATH`},
		{"-o custom-columns=NAME:", `--output custom-columns: "" is no path of a field`},
		{"-o custom-columns=NAME:{.a}{.b}", `--output custom-columns: "{.a}{.b}" is no path of a field`},
		{"-o wide=x", `--output "wide=x": want table or wide`},
		{"--sort-by {}", `--sort-by: "{}" is no path of a field`},
	} {
		_, err := run(t, strings.Fields("host list "+c.flags)...)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("host list %s: got %v, want %s…", c.flags, err, c.want)
		}
	}
	if _, err := run(t, "kubeconfig", "x", "-o", "jsonpath={.a}"); err == nil || !strings.HasPrefix(err.Error(), `--output "jsonpath={.a}": want path or yaml`) {
		t.Errorf("what has no JSON takes a template: %v", err)
	}
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	err := write(cmd, hostsList([]hostRow{{Name: "host-1"}}), listFlags{output: outputTable, sortBy: ".nothing"})
	if err == nil || !strings.HasPrefix(err.Error(), "--sort-by: no row has the field .nothing") || out.Len() > 0 {
		t.Errorf("an order by a field that nobody has: %v, printed %q", err, out.String())
	}
}

// A person reads that there is nothing, on standard error; programs read an empty list.
func TestNothingIsListed(t *testing.T) {
	f := &scopeFlags{selector: "rack=a\x1b[2J"}
	f.namespace = "nope"
	empty := hostsList([]hostRow{})
	empty.empty = f.none("hosts")
	for format, want := range map[string][2]string{
		outputTable: {"", "No hosts with labels rack=a^[[2J in namespace nope.\n"},
		outputWide:  {"", "No hosts with labels rack=a^[[2J in namespace nope.\n"},
		outputJSON:  {"[]\n", ""},
		outputName:  {"", ""},
	} {
		var out, errors strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&errors)
		if err := write(cmd, empty, listFlags{output: format}); err != nil || out.String() != want[0] || errors.String() != want[1] {
			t.Errorf("-o %s: %v, got %q and %q, want %q", format, err, out.String(), errors.String(), want)
		}
	}
}
