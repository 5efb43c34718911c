package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/display"
)

// errNotConfirmed says that a user did not want what was asked.
var errNotConfirmed = errors.New("nothing was deleted")

// errNotAgreed likewise, of a change that deletes nothing by its name.
var errNotAgreed = errors.New("nothing was changed")

// confirm has the user of a terminal type the name of the cluster.
func confirm(cmd *cobra.Command, s *session, cluster *clusterv1.Cluster) error {
	state := clusters.Look(cluster)
	return Confirm(cmd, cluster.Name, fmt.Sprintf("Cluster %s/%s of %s has %d control planes and %d workers. All that runs there ends, and its data on the hosts is deleted.",
		cluster.Namespace, cluster.Name, s.cluster.Target(), state.ControlPlane.Desired, state.Workers.Desired))
}

// Confirm tells the user of a terminal what would be deleted, and has its name typed. It fails when another name was
// typed, and when there is no terminal.
func Confirm(cmd *cobra.Command, name, what string) error {
	if !interactive(cmd) {
		return fmt.Errorf("%w: there is no terminal to prompt on, give --yes", errNotConfirmed)
	}
	return prompt(cmd, fmt.Sprintf("%s\nType its name, %s, to delete it: ", what, name), errNotConfirmed, name)
}

// confirmFlags let a user do without a question.
type confirmFlags struct{ yes bool }

func (f *confirmFlags) bind(command *cobra.Command) {
	command.Flags().BoolVar(&f.yes, "yes", false, "do not prompt on a terminal")
}

// confirm names what is done to hosts, in which management cluster, and what is lost. A user of a terminal
// has to agree; without one the command continues, as for scripts.
func (f *confirmFlags) confirm(cmd *cobra.Command, s *session, what, loses string) error {
	text := fmt.Sprintf("%s in namespace %s of %s. %s.\n", what, s.namespace, s.cluster.Target(), loses)
	if f.yes || !interactive(cmd) {
		err := display.WriteVisible(cmd.ErrOrStderr(), text)
		return err
	}
	return prompt(cmd, text+"Continue? [y/N] ", errNotAgreed, "y", "yes")
}

// interactive reports whether somebody can answer a question.
func interactive(cmd *cobra.Command) bool {
	in, file := cmd.InOrStdin().(*os.File)
	return !file || term.IsTerminal(int(in.Fd()))
}

// prompt returns refused unless one of the answers is typed.
func prompt(cmd *cobra.Command, question string, refused error, answers ...string) error {
	_ = display.WriteVisible(cmd.ErrOrStderr(), question)
	typed, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !slices.Contains(answers, strings.TrimSpace(typed)) {
		return refused
	}
	return nil
}
