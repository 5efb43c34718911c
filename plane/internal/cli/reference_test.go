package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// reference is the page that shows every command with its flags.
const reference = "../../../docs/reference/cli.md"

var write = flag.Bool("write", false, "write "+reference+" instead of comparing it")

const referenceHead = `# slipway: command reference

Every command with all its flags, written by ` + "`make docs`" + ` from the commands themselves. What they are for, with real output, is in
[The command line](../cli.md). ` + "`kubectl slipway`" + ` has the same, without ` + "`up`, `down`, `install`, `uninstall`, `serve`, `--state-dir`" + ` and what is for local hosts alone.

`

// The page is what the commands say of themselves.
func TestReference(t *testing.T) {
	t.Setenv(envStateDir, "")
	t.Setenv(envBundle, "bundle beside the binary")
	root := Root()
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var page bytes.Buffer
	page.WriteString(referenceHead)
	anchor := func(file string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-") }
	for _, command := range withSubcommands(root) {
		if err := doc.GenMarkdownCustom(command, &page, anchor); err != nil {
			t.Fatal(err)
		}
	}
	if *write {
		if err := os.WriteFile(reference, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, page.Bytes()) {
		t.Errorf("%s is stale: run `make docs`", reference)
	}
}

// withSubcommands lists what a user can call, in the order of the help.
func withSubcommands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, withSubcommands(sub)...)
		}
	}
	return list
}
