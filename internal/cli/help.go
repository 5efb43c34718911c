package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/internal/display"
)

// connectionFlags say which management cluster is meant, and as whom; help lists them after the others.
var connectionFlags = []string{"kubeconfig", "context", "user", "as", "as-group", "as-uid", "request-timeout", "state-dir"}

// wrapHelp has help and usage fit the terminal, and the flags in two groups.
func wrapHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("flagsOf", flagsOf)
	cobra.AddTemplateFunc("globalFlagsOf", func(cmd *cobra.Command) string { return usages(cmd, cmd.InheritedFlags(), false) })
	const local, global = "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}"
	root.SetUsageTemplate(strings.NewReplacer(local, "{{flagsOf .}}", global, "{{globalFlagsOf .}}").Replace(root.UsageTemplate()))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		// Cobra writes the flags into a buffer first, which has no width.
		cmd.SetContext(context.WithValue(cmp.Or(cmd.Context(), context.Background()), helpOut{}, cmd.OutOrStdout()))
		cmd.Long = wrapped(cmd.OutOrStdout(), cmd.Long)
		help(cmd, args)
	})
}

// helpOut is the key of the output of help in the context of its command.
type helpOut struct{}

// flagsOf are the flags of a command; those that say which management cluster is meant are a group of their own.
func flagsOf(cmd *cobra.Command) string {
	own := usages(cmd, cmd.LocalFlags(), false)
	if connection := usages(cmd, cmd.LocalFlags(), true); connection != "" {
		own += "\n\nManagement cluster:\n" + connection
	}
	return own
}

// usages describes the flags of a set that are in connectionFlags, or those that are not.
func usages(cmd *cobra.Command, set *pflag.FlagSet, connection bool) string {
	some := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.VisitAll(func(f *pflag.Flag) {
		if cmd.HasParent() && slices.Contains(connectionFlags, f.Name) == connection || !cmd.HasParent() && !connection {
			some.AddFlag(f)
		}
	})
	const roomy = 110
	out := cmd.OutOrStdout()
	if ctx := cmd.Context(); ctx != nil {
		if shown, ok := ctx.Value(helpOut{}).(io.Writer); ok {
			out = shown
		}
	}
	width := display.Width(out)
	if width == 0 || width >= roomy {
		return strings.TrimRight(some.FlagUsagesWrapped(width), " \n")
	}
	// What a flag means is below its name.
	var text strings.Builder
	some.VisitAll(func(f *pflag.Flag) {
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		line := strings.TrimSpace(one.FlagUsages())
		name, usage, _ := strings.Cut(line, "   ")
		text.WriteString("  " + name + "\n" + indented(out, "        ", strings.TrimSpace(usage)))
	})
	return strings.TrimRight(text.String(), " \n")
}

// indented is a text with a margin that fits the terminal.
func indented(out io.Writer, margin, text string) string {
	screen, err := display.On(out, "never")
	if err != nil {
		return margin + text + "\n"
	}
	page := display.NewPage(screen)
	page.Paragraph(margin, text)
	return page.String()
}

// wrapped has the paragraphs of a text fit a terminal that is narrower than they are. Indented lines stay.
func wrapped(out io.Writer, text string) string {
	width := display.Width(out)
	if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return width > 0 && len(line) > width }) {
		return text
	}
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") {
			paragraphs[i] = strings.TrimSuffix(indented(out, "", p), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
