package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/cli"
)

// commandLines are those of TestCommands: what shows the state of a management cluster.
var commandLines = []string{
	"status -A",
	"status -A -o wide",
	"status -A -o json",
	"status -A -o name",
	"status -n prod -l tier=gold",
	"status -n nope",
	"status --explain prod/held-cp-3",
	"status --explain prod/held-cp-3 -o json",
	"status --explain prod/held-cp-1",
	"doctor -A",
	"doctor -A -o wide",
	"doctor -A -o json",
	"doctor -A -o name",
	"doctor -n other",
	"cluster get -A",
	"cluster get -A -o wide",
	"cluster get -A -o json",
	"cluster get -A --sort-by .name --no-headers -o custom-columns=NAME:.name,WORD:.state.word",
	"cluster get -A -o jsonpath={range.items[*]}{.name}={.state.word};{end}",
	"cluster get nothing -n prod",
	"cluster describe held -n prod",
	"cluster describe held -n prod -o wide",
	"cluster describe held -n prod -o json",
	"cluster describe nothing -n prod",
	"host list -A",
	"host list -A -o wide",
	"host list -A -o json",
	"host list -A --sort-by {.claimedBy} -o name",
	"host list -A --sort-by phase -o custom-columns=HOST:.name,PHASE:phase,FIRST:{.addresses[0]}",
	"host list -A -o go-template={{.items|len}}",
	"host list --sort-by .nothing",
	"host list -o jsonpath={.items[",
	"lifecycle explain held -n prod",
	"lifecycle explain held -n prod -o json",
	"lifecycle explain broken -n prod",
	"lifecycle explain nothing -n prod",
	"approve broken -n prod",
	"lifecycle logs held-upgrade ask -n prod",
	"cluster create new -n prod --endpoint 192.0.2.200 --dry-run",
	"cluster create new -n prod --endpoint 192.0.2.200 --dry-run -o json",
	"cluster scale held -n prod --pool nothing=3",
	"cluster upgrade held -n prod --kubernetes-version v1.30.0",
	"host approve nothing -n prod",
	"version -o json",
}

// What commands print, their errors and their exit codes, with the objects of world.yaml.
func TestCommands(t *testing.T) {
	t.Setenv("KUBECONFIG", serve(t, filepath.Join("testdata", "world.yaml")))
	var page strings.Builder
	page.WriteString("# What commands print with the objects of world.yaml\n")
	for _, line := range commandLines {
		root := cli.Root(cli.Program{Name: "slipway"})
		var out, errors bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errors)
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		code, silent := cli.ExitCode(err)
		fmt.Fprintf(&page, "\n$ slipway %s\n%s", line, steady(indented(out.Bytes())))
		for text := range strings.Lines(steady(errors.String())) {
			page.WriteString("stderr: " + text)
		}
		if err != nil && !silent {
			fmt.Fprintf(&page, "error: %s\n", steady(err.Error()))
		}
		if code != 0 {
			fmt.Fprintf(&page, "exit code %d\n", code)
		}
	}
	compare(t, "commands.txt", page.String())
}

// indented is JSON with a line for each field, any other text as it is.
func indented(text []byte) string {
	var lines bytes.Buffer
	if (bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))) && json.Indent(&lines, text, "", " ") == nil {
		return lines.String()
	}
	return string(text)
}

var (
	address    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	lookedAt   = regexp.MustCompile(`("time": )"[^"]+"`)
	goVersion  = regexp.MustCompile(`("(?:go|platform|slipway)": )"[^"]+"`)
	age        = regexp.MustCompile(`\b(since|for) \d+[smhdy]\w*`)
	ages       = regexp.MustCompile(`(?m)  +(?:\d+[smhdy]){1,2}(  |$)`)
	padding    = regexp.MustCompile(`  +`)
	trailing   = regexp.MustCompile(`(?m)[ \t]+$`)
	kubeconfig = regexp.MustCompile(regexp.QuoteMeta(os.TempDir()) + `/[^ "]+/kubeconfig`)
)

// steady leaves out what is another one each time.
func steady(text string) string {
	text = address.ReplaceAllString(text, "SERVER")
	text = lookedAt.ReplaceAllString(text, `$1"NOW"`)
	text = goVersion.ReplaceAllString(text, `$1"…"`)
	text = kubeconfig.ReplaceAllString(text, "KUBECONFIG")
	text = age.ReplaceAllString(text, "$1 AGE")
	if strings.Contains(text, "  FOR") {
		// The columns of a table are as wide as ages are.
		var lines strings.Builder
		for line := range strings.Lines(text) {
			body := strings.TrimLeft(line, " ")
			lines.WriteString(line[:len(line)-len(body)] + ages.ReplaceAllString(padding.ReplaceAllString(body, "  "), "  AGE$1"))
		}
		text = lines.String()
	}
	return trailing.ReplaceAllString(text, "")
}
