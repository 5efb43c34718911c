package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/version"
)

// PluginName is the name under which kubectl finds a program, for `kubectl slipway`.
const PluginName = "kubectl-slipway"

const pluginLong = `Manage the hosts and clusters of a Slipway management cluster, named by
--kubeconfig and --context or by the kubeconfig of kubectl.`

// Root returns the command of a program.
func Root(p Program) *cobra.Command {
	if p.Long == "" {
		p.Long = pluginLong
	}
	root := &cobra.Command{
		Use:           p.Name,
		Short:         "Turn Linux hosts into Kubernetes clusters, managed by Cluster API",
		Long:          p.Long,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	color := root.PersistentFlags().String("color", "auto", "colours of states: auto for terminals without NO_COLOR, always or never")
	completeFlag(root, "color", display.ColorModes)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		out, err := display.On(cmd.OutOrStdout(), *color)
		if err == nil {
			root.SetOut(out)
		}
		return err
	}
	// Packages of Kubernetes register flags of their own there, which cobra adds.
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	})
	var own Commands
	if p.Commands != nil {
		own = p.Commands()
	}
	root.AddGroup(&cobra.Group{ID: "use", Title: "Commands:"}, &cobra.Group{ID: "more", Title: "Other commands:"})
	use := []*cobra.Command{statusCommand(&p), doctorCommand(&p), eventsCommand(&p), clusterCommand(&p), kubeconfigCommand(&p), hostCommand(&p, own.Host), bundleCommand(&p), approveCommand(&p), lifecycleCommand(&p), uiCommand(&p), checkCommand(&p)}
	for _, command := range append(use, own.Use...) {
		command.GroupID = "use"
		root.AddCommand(command)
	}
	for _, command := range append([]*cobra.Command{supportBundleCommand(&p), extensionCommand(), openapiCommand(), versionCommand(&p)}, own.More...) {
		command.GroupID = "more"
		root.AddCommand(command)
	}
	root.AddCommand(
		verb("get", named("hosts", hostListCommand(&p)), named("clusters", clusterGetCommand(&p)), named("events", eventsCommand(&p))),
		verb("describe", named("host", hostDescribeCommand(&p)), named("cluster", clusterDescribeCommand(&p))),
	)
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.InitDefaultCompletionCmd()
	refuseUnknown(root)
	explainUsage(root)
	wrapHelp(root)
	if p.Name == PluginName || filepath.Base(os.Args[0]) == PluginName {
		asPlugin(root)
	}
	return root
}

// verb has commands in the order of kubectl's words, such as get hosts, for those who type them so. Help has the
// others alone.
func verb(name string, nouns ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: name, Short: "The same, with the words in kubectl's order", Hidden: true}
	command.AddCommand(nouns...)
	return command
}

// named calls a command by its noun, in singular and plural.
func named(noun string, command *cobra.Command) *cobra.Command {
	_, arguments, _ := strings.Cut(command.Use, " ")
	other := noun + "s"
	if one, plural := strings.CutSuffix(noun, "s"); plural {
		other = one
	}
	command.Use, command.Aliases, command.GroupID = strings.TrimSpace(noun+" "+arguments), []string{other}, ""
	return command
}

// asPlugin shows the command as what the user types.
func asPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl slipway"}
	typed := strings.NewReplacer("\n  slipway ", "\n  kubectl slipway ", "$(slipway ", "$(kubectl slipway ")
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		command.Example = typed.Replace("\n" + command.Example)[1:]
		for _, sub := range command.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func hostCommand(p *Program, own []*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:     "host",
		Aliases: []string{"hosts"},
		Short:   "Manage hosts: add, approve, maintain, reset and remove them",
	}
	if p.Local != nil {
		command.Short = "Manage hosts, and simulate failures of local ones"
	}
	group := func(id, title string, commands ...*cobra.Command) {
		if len(commands) > 0 {
			command.AddGroup(&cobra.Group{ID: id, Title: title})
		}
		for _, sub := range commands {
			sub.GroupID = id
			command.AddCommand(sub)
		}
	}
	group("see", "See:", hostListCommand(p), hostDescribeCommand(p), hostLogsCommand(p))
	group("join", "Add and remove:", hostAddCommand(p), hostTokenCommand(p), hostApproveCommand(p), hostAssignCommand(p), hostRemoveCommand(p))
	group("maintain", "Maintain:", hostCordonCommand(p), hostEvacuateCommand(p), hostUncordonCommand(p), hostRebootCommand(p), hostReplaceCommand(p))
	group("recover", "After trouble:", hostAdoptCommand(p), hostResetCommand(p), hostClearCommand(p))
	group("local", "Local hosts, and simulated failures of them:", own...)
	return command
}

// refuseUnknown makes the name of an unknown subcommand an error at every level. Cobra
// itself does so for the root only; elsewhere it shows the help and ends with 0, which
// a script takes for success.
func refuseUnknown(root *cobra.Command) {
	for _, command := range root.Commands() {
		if !command.HasSubCommands() {
			continue
		}
		if command.Runnable() {
			refuseUnknown(command) // does something itself and refuses arguments
			continue
		}
		command.Args = knownSubcommand
		command.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		refuseUnknown(command)
	}
	if root.HasParent() {
		return
	}
	root.Args, root.RunE = knownSubcommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		return knownSubcommand(about, rest)
	}
}

// breaks are commands that nobody is led to by a slip: they take something away, or stop it.
var breaks = []string{"cut", "delete", "down", "drain", "evacuate", "power-cycle", "power-off", "reboot", "remove", "replace", "reset", "clear-quarantine", "uninstall", "skip"}

// knownSubcommand refuses what is left of a command line once all names of commands in it
// are gone.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = max(cmd.SuggestionsMinimumDistance, 2) // cobra's own default for the root
	if cmd.Name() == "completion" {
		hint = ": there is one for bash, fish, powershell and zsh"
	} else if near := slices.DeleteFunc(cmd.SuggestionsFor(args[0]), func(name string) bool { return slices.Contains(breaks, name) }); len(near) > 0 {
		hint = fmt.Sprintf(", did you mean %q?", near[0])
	}
	return fmt.Errorf("unknown command %q for %q%s; see `%s --help`", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
}
