package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reference is the page that shows every command with its flags.
const reference = "../../../docs/reference/cli.md"

var write = flag.Bool("write", false, "write "+reference+" instead of comparing it")

const referenceHead = `# slipway: command reference

Every command with its flags, written by ` + "`make docs`" + ` from the commands themselves. What they are for, with real output, is in
[The command line](../cli.md). ` + "`kubectl slipway`" + ` has the same, without ` + "`up`, `down`, `install`, `uninstall`, `serve`, `--state-dir`" + ` and what is for local hosts alone.

`

// The page is what the commands say of themselves.
func TestReference(t *testing.T) {
	t.Setenv(envStateDir, "")
	root := Root()
	root.InitDefaultCompletionCmd()
	commands := withSubcommands(root)
	common := commonFlags(commands)
	var page strings.Builder
	page.WriteString(referenceHead + "## Flags of many commands\n\nA command lists by name which of these it has. `-h` is one of each.\n\n```\n" + common.FlagUsages() + "```\n")
	for _, command := range commands {
		describe(&page, command, common)
	}
	if *write {
		if err := os.WriteFile(reference, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page.String() {
		t.Errorf("%s is stale: run `make docs`", reference)
	}
}

// commonFlags are those that at least three commands have with the same default and description.
func commonFlags(commands []*cobra.Command) *pflag.FlagSet {
	type meaning struct{ name, value, usage string }
	count, common := map[meaning]int{}, pflag.NewFlagSet("common", pflag.ContinueOnError)
	for _, command := range commands {
		flagsOf(command).VisitAll(func(f *pflag.Flag) {
			m := meaning{f.Name, f.DefValue, f.Usage}
			if count[m]++; count[m] == 3 && common.Lookup(f.Name) == nil {
				common.AddFlag(f)
			}
		})
	}
	return common
}

// flagsOf are the flags of a command, those of the commands above it among them, without -h.
func flagsOf(command *cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet(command.Name(), pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if f.Name != "help" {
			flags.AddFlag(f)
		}
	}
	command.NonInheritedFlags().VisitAll(add)
	command.InheritedFlags().VisitAll(add)
	return flags
}

// describe writes the help of a command. One that only holds others has no usage.
func describe(page *strings.Builder, command *cobra.Command, common *pflag.FlagSet) {
	fmt.Fprintf(page, "\n## %s\n%s\n", command.CommandPath(), wrap(cmp.Or(strings.TrimSpace(command.Long), command.Short)))
	own, names := pflag.NewFlagSet(command.Name(), pflag.ContinueOnError), []string{}
	flagsOf(command).VisitAll(func(f *pflag.Flag) {
		if c := common.Lookup(f.Name); c != nil && c.Usage == f.Usage && c.DefValue == f.DefValue {
			names = append(names, "--"+f.Name)
			return
		}
		own.AddFlag(f)
	})
	if !command.Runnable() || command.HasAvailableSubCommands() && !own.HasAvailableFlags() {
		return // it shows its help
	}
	fmt.Fprintf(page, "```\n%s\n", command.UseLine())
	if command.Example != "" {
		fmt.Fprintf(page, "%s\n", strings.Trim(command.Example, "\n"))
	}
	page.WriteString(own.FlagUsages())
	if len(names) > 0 {
		fmt.Fprintf(page, "      %s\n", strings.Join(names, ", "))
	}
	page.WriteString("```\n")
}

// width is that of the documents; help is wrapped for terminals.
const width = 160

// wrap wraps the paragraphs of a text anew, except those with indented lines.
func wrap(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			continue
		}
		var out strings.Builder
		column := 0
		for word := range strings.FieldsSeq(p) {
			length := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+length > width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += length
		}
		paragraphs[i] = out.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// withSubcommands lists what a user can call, in the order of the help. What completion is for
// each shell is told by the command itself.
func withSubcommands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && c.Name() != "completion" {
			list = append(list, withSubcommands(sub)...)
		}
	}
	return list
}
