package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

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
	t.Setenv(envBundle, "bundle beside the binary")
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

// commonFlags are those that at least five commands have with the same default and description.
func commonFlags(commands []*cobra.Command) *pflag.FlagSet {
	type meaning struct{ name, value, usage string }
	count, common := map[meaning]int{}, pflag.NewFlagSet("common", pflag.ContinueOnError)
	for _, command := range commands {
		flagsOf(command).VisitAll(func(f *pflag.Flag) {
			m := meaning{f.Name, f.DefValue, f.Usage}
			if count[m]++; count[m] == 5 && common.Lookup(f.Name) == nil {
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

// describe writes what a command says of itself. One that only holds others has no usage.
func describe(page *strings.Builder, command *cobra.Command, common *pflag.FlagSet) {
	fmt.Fprintf(page, "\n## %s\n\n%s\n", command.CommandPath(), command.Short)
	if command.Long != "" && command.Long != command.Short {
		fmt.Fprintf(page, "\n%s\n", strings.TrimSpace(command.Long))
	}
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
	fmt.Fprintf(page, "\n```\n%s\n", command.UseLine())
	if command.Example != "" {
		fmt.Fprintf(page, "\n%s\n", strings.TrimRight(command.Example, "\n"))
	}
	if own.HasAvailableFlags() {
		fmt.Fprintf(page, "\n%s", own.FlagUsages())
	}
	if len(names) > 0 {
		fmt.Fprintf(page, "\n      %s\n", strings.Join(names, ", "))
	}
	page.WriteString("```\n")
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
