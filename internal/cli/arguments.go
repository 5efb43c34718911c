package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// listed names the command that lists what an argument stands for.
var listed = map[string]string{"CLUSTER": "cluster get", "HOST": "host list", "RUN": "lifecycle explain CLUSTER", "BUNDLE": "bundle list"}

// explainUsage replaces cobra's errors about arguments and flags by ones that name them, and say where names come from.
func explainUsage(command *cobra.Command) {
	for _, sub := range command.Commands() {
		explainUsage(sub)
	}
	if command.HasSubCommands() || !command.Runnable() {
		return
	}
	if valid := command.Args; valid != nil {
		command.Args = func(cmd *cobra.Command, args []string) error { return argumentsError(cmd, args, valid(cmd, args)) }
	}
	command.PreRunE = func(cmd *cobra.Command, _ []string) error { return flagsError(cmd) }
}

var (
	// The errors of cobra's own validators, in which a number or the name of a command follows.
	tooFew  = regexp.MustCompile(`^(?:accepts (?:between )?[0-9]+ .*|requires at least [0-9]+ .*), (?:only )?received [0-9]+$`)
	tooMany = regexp.MustCompile(`^(?:unknown command ".*" for ".*"|accepts at most .*)$`)
	// argument is one in the usage of a command, such as CLUSTER in "approve CLUSTER|RUN".
	argument = regexp.MustCompile(`\b[A-Z]{2,}\b`)
)

// argumentsError explains an error of cobra's about the number of arguments, and returns any other as it is.
func argumentsError(cmd *cobra.Command, args []string, err error) error {
	if err == nil {
		return nil
	}
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	wanted, _, _ = strings.Cut(wanted, " -")
	names := strings.Fields(wanted)
	required := len(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "[") && !strings.Contains(n, "]A") }))
	switch {
	case !tooFew.MatchString(err.Error()) && !tooMany.MatchString(err.Error()):
		return err
	case len(args) < required:
		from := ""
		for _, name := range argument.FindAllString(names[len(args)], -1) {
			if list := listed[name]; list != "" {
				from += fmt.Sprintf("; `%s %s` shows each %s", cmd.Root().CommandPath(), list, name)
			}
		}
		return fmt.Errorf("%s is missing: %s %s%s", names[len(args)], cmd.CommandPath(), wanted, from)
	case required == 0 && len(names) == 0:
		return fmt.Errorf("%q is too much: %s takes no argument; see `%[2]s --help`", args[0], cmd.CommandPath())
	}
	return fmt.Errorf("%q is too much: %s %s; see `%[2]s --help`", args[min(len(names), len(args)-1)], cmd.CommandPath(), wanted)
}

// exclusive finds the flags in cobra's error about a group of which one may be given.
var exclusive = regexp.MustCompile(`\[([^\]]+)\] were all set`)

// flagsError says which required flags are missing, with what they mean, and which exclude each other.
func flagsError(cmd *cobra.Command) error {
	var missing []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if required := f.Annotations[cobra.BashCompOneRequiredFlag]; slices.Equal(required, []string{"true"}) && !f.Changed {
			_, usage := pflag.UnquoteUsage(f)
			missing = append(missing, fmt.Errorf("--%s is missing: %s; see `%s --help`", f.Name, usage, cmd.CommandPath()))
		}
	})
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	if set := exclusive.FindStringSubmatch(err.Error()); set != nil {
		return fmt.Errorf("--%s exclude each other", strings.Join(strings.Fields(set[1]), " and --"))
	}
	return err
}
