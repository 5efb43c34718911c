// Package clitest holds a tree of commands to what users expect of each of them: help,
// errors for what is not known, the same flags and formats everywhere, and no escapes
// where nobody draws them.
//
// It is imported by tests of internal/cli and of the plane's internal/cli.
package clitest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Run runs a command line and returns what it printed.
func Run(ctx context.Context, root *cobra.Command, args ...string) (string, error) {
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{}, args...)) // nil would stand for the test's own
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// tree is a program that is tested.
type tree struct {
	root func() *cobra.Command
	// prints are commands with subcommands that do something themselves, by their path
	// below the root, with a part of what that is.
	prints map[string]string
}

// Tree tests every command of a program, which root makes anew for each run.
func Tree(t *testing.T, root func() *cobra.Command, prints map[string]string) {
	t.Helper()
	tr := tree{root: root, prints: prints}
	for _, rule := range []struct {
		name  string
		check func(*testing.T, *cobra.Command, []string)
	}{
		{"help", tr.help},
		{"unknown subcommands fail", tr.unknown},
		{"unknown flags fail", tr.unknownFlag},
		{"flags", flags},
		{"output", tr.output},
	} {
		t.Run(rule.name, func(t *testing.T) {
			walk(root(), func(c *cobra.Command, path []string) { rule.check(t, c, path) })
		})
	}
}

// walk visits every command with its path below the root.
func walk(root *cobra.Command, visit func(*cobra.Command, []string)) {
	var below func(*cobra.Command, []string)
	below = func(c *cobra.Command, path []string) {
		visit(c, path)
		for _, sub := range c.Commands() {
			below(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	below(root, nil)
}

func (tr tree) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return Run(t.Context(), tr.root(), args...)
}

// Every command has a short text and a help that shows, and none of the flags
// that packages of Kubernetes bring along.
func (tr tree) help(t *testing.T, c *cobra.Command, path []string) {
	if c.Short == "" || strings.HasSuffix(c.Short, ".") {
		t.Errorf("%s: short text %q", c.CommandPath(), c.Short)
	}
	out, err := tr.run(t, append(slices.Clone(path), "--help")...)
	if err != nil || !strings.Contains(out, "Usage:\n  "+c.CommandPath()) || strings.Contains(out, "--version=raw") || strings.Contains(out, "\x1b") {
		t.Errorf("%s --help: %v\n%s", c.CommandPath(), err, out)
	}
	for line := range strings.Lines(c.Example) {
		if !strings.Contains(line, c.Root().CommandPath()+" ") {
			t.Errorf("%s: the example %q calls another program", c.CommandPath(), line)
		}
	}
}

// A typing error must not pass for success, at any level.
func (tr tree) unknown(t *testing.T, c *cobra.Command, path []string) {
	if !c.HasSubCommands() {
		return
	}
	for _, args := range [][]string{append(slices.Clone(path), "bogus"), append(append([]string{"help"}, path...), "bogus")} {
		out, err := tr.run(t, args...)
		if err == nil || !strings.Contains(err.Error(), `unknown command "bogus" for "`+c.CommandPath()+`"`) || out != "" {
			t.Errorf("%s: %v, printed %.200q", strings.Join(args, " "), err, out)
		}
	}
	alone := tr.prints[strings.Join(path, " ")]
	if alone == "" {
		alone = "Commands:"
		if groups := c.Groups(); len(groups) > 0 {
			alone = groups[0].Title
		}
	}
	if out, err := tr.run(t, path...); err != nil || !strings.Contains(out, alone) {
		t.Errorf("%s alone shows no %q: %v\n%s", c.CommandPath(), alone, err, out)
	}
}

func (tr tree) unknownFlag(t *testing.T, c *cobra.Command, path []string) {
	out, err := tr.run(t, append(slices.Clone(path), "--bogus")...)
	if err == nil || !strings.Contains(err.Error(), "--bogus") || !strings.Contains(err.Error(), c.CommandPath()+" --help") || out != "" {
		t.Errorf("%s --bogus: %v, printed %.200q", c.CommandPath(), err, out)
	}
}

// letters mean the same wherever they are, as they do in kubectl.
var letters = map[string]string{
	"A": "all-namespaces", "f": "file follow", "h": "help", "l": "selector", "n": "namespace", "o": "output", "v": "version", "w": "watch",
}

func flags(t *testing.T, c *cobra.Command, _ []string) {
	for short, names := range letters {
		if flag := c.Flags().ShorthandLookup(short); flag != nil && !slices.Contains(strings.Fields(names), flag.Name) {
			t.Errorf("%s: -%s is --%s, elsewhere --%s", c.CommandPath(), short, flag.Name, names)
		}
	}
	for name, short := range map[string]string{"all-namespaces": "A", "selector": "l", "namespace": "n", "output": "o"} {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Shorthand != short {
			t.Errorf("%s: --%s has the letter %q, elsewhere %q", c.CommandPath(), name, flag.Shorthand, short)
		}
	}
	if isFile(c.Flags().Lookup("output")) {
		return // what writes a file lists nothing
	}
	all, selector, output := c.Flags().Lookup("all-namespaces"), c.Flags().Lookup("selector"), c.Flags().Lookup("output")
	if (all == nil) != (selector == nil) {
		t.Errorf("%s: what lists has both -A and -l", c.CommandPath())
	}
	if all != nil && (output == nil || !strings.Contains(output.Usage, ": table, wide, json, yaml or name;")) {
		t.Errorf("%s lists without the formats that all lists have: %v", c.CommandPath(), output)
	}
}

// isFile says whether the value of a flag is the name of a file.
func isFile(flag *pflag.Flag) bool {
	return flag != nil && flag.Annotations[cobra.BashCompFilenameExt] != nil
}

// output of every command that has formats: one that it has not is refused before
// anything is done, and those it has are offered.
func (tr tree) output(t *testing.T, c *cobra.Command, path []string) {
	flag := c.Flags().Lookup("output")
	if flag == nil || isFile(flag) {
		return
	}
	args := append(append(slices.Clone(path), placeholders(c)...), "-o", "bogus")
	if out, err := tr.run(t, args...); err == nil || !strings.HasPrefix(err.Error(), `--output "bogus": want `) || out != "" {
		t.Errorf("%s: %v, printed %.200q", strings.Join(args, " "), err, out)
	}
	offered, err := tr.run(t, append(append([]string{cobra.ShellCompNoDescRequestCmd}, path...), "-o", "")...)
	if err != nil || !slices.Contains(strings.Split(offered, "\n"), flag.DefValue) || !strings.Contains(flag.Usage, flag.DefValue) {
		t.Errorf("%s: the default %q is not among what completion offers (%v):\n%s", c.CommandPath(), flag.DefValue, err, offered)
	}
}

// placeholders are as many arguments, and the flags, that a command wants.
func placeholders(c *cobra.Command) []string {
	var args []string
	for len(args) < 5 && c.Args != nil && c.Args(c, args) != nil {
		args = append(args, "some")
	}
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[cobra.BashCompOneRequiredFlag] != nil {
			args = append(args, "--"+flag.Name, "some")
		}
	})
	return args
}
