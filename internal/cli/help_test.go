package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/internal/display"
)

// helpOf is what a terminal of so many columns shows for a command; a pipe where there are none.
func helpOf(t *testing.T, columns string, args ...string) string {
	t.Helper()
	t.Setenv("COLUMNS", columns)
	var text bytes.Buffer
	root := plugin()
	root.SetOut(&display.Screen{Writer: &text, Terminal: columns != ""})
	root.SetArgs(append(args, "--help"))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// Help fits a narrow terminal but for examples, which people copy, and has what names the management cluster apart.
func TestHelpFits(t *testing.T) {
	for _, command := range []string{"cluster create", "doctor", "host add", "host", ""} {
		text := helpOf(t, "64", strings.Fields(command)...)
		before, after, _ := strings.Cut(text, "Examples:\n")
		_, after, _ = strings.Cut(after, "\n\n")
		for line := range strings.Lines(before + after) {
			// Names of subcommands have columns, and what they mean is one line.
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 64 && command != "host" && command != "" {
				t.Errorf("%s: a line of %d columns: %s", command, n, line)
			}
		}
		if pipe := helpOf(t, "", strings.Fields(command)...); strings.Count(pipe, "\n") >= strings.Count(text, "\n") && strings.Contains(pipe, "Management cluster:") {
			t.Errorf("%s: a pipe has as many lines as a narrow terminal:\n%s", command, pipe)
		}
	}
	flags, connection, apart := strings.Cut(helpOf(t, "200", "cluster", "create"), "\nManagement cluster:\n")
	if !apart || strings.Contains(flags, "--kubeconfig string") || !strings.Contains(connection, "--kubeconfig string") || !strings.Contains(flags, "--endpoint string") {
		t.Errorf("the flags are\n%s\nand\n%s", flags, connection)
	}
	host := helpOf(t, "200", "host")
	if strings.Contains(host, "Additional Commands") || strings.Index(host, "Maintain:") > strings.Index(host, "  evacuate") {
		t.Errorf("host has no groups:\n%s", host)
	}
}
