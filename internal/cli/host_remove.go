package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/provision"
	"github.com/slipway-dev/slipway/internal/provision/remote"
)

// hostRemoveFlags say how hosts are removed, and where their machines are.
type hostRemoveFlags struct {
	managementFlags
	machineFlags
	confirmFlags
	ssh      []string
	noSSH    bool
	evacuate bool
	output   string
}

func hostRemoveCommand(p *Program) *cobra.Command {
	f := &hostRemoveFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:     "remove HOST...",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove hosts: empty them, uninstall everything, and verify it",
		Long: `Remove hosts, the opposite of "host add": make sure that no machine can claim a host,
wait until it is verified as clean of its last claim, log in over SSH and let the agent
remove itself and the software it installed, check for leftovers, and delete the Host
with its own tokens. A claimed host is refused, unless --evacuate empties it first. A
node is never touched, whatever the management cluster says about it. After an
interruption the same command continues. The exit code is 1 when a host failed, or its
machine has leftovers.

The address of a machine is the one in its Host; --ssh gives another one, also for
machines whose Host is gone. Keys and known hosts are those of "host add".`,
		Example: `  slipway host remove rack1-a --ssh root@192.0.2.11
  slipway host remove rack1-a rack1-b --user root --evacuate -n prod
  slipway host remove rack1-a --ssh rack1-a=admin@10.0.0.11 --jump admin@bastion -o json
  slipway host remove burnt-down --no-ssh`,
		Args:              cobra.MinimumNArgs(1),
		RunE:              f.on(func(cmd *cobra.Command, s *session, args []string) error { return f.remove(cmd, s, args) }),
		ValidArgsFunction: f.completeHosts(),
	}
	f.machineFlags.bind(command, 30*time.Minute)
	flags := command.Flags()
	flags.StringArrayVar(&f.ssh, "ssh", nil, "machine of the host, as [USER@]ADDRESS[:PORT]; with several hosts as HOST=[USER@]ADDRESS[:PORT], once for each")
	flags.StringVar(&f.login.User, "user", "", "whom to log in as where --ssh names nobody; yourself when empty")
	flags.BoolVar(&f.noSSH, "no-ssh", false, "leave the machines as they are, and say what is left to do on them")
	flags.BoolVar(&f.evacuate, "evacuate", false, "empty hosts that a machine has: its pool replaces it first")
	f.confirmFlags.bind(command)
	f.managementFlags.bind(command, "of the hosts")
	command.MarkFlagsMutuallyExclusive("ssh", "no-ssh")
	outputFlag(command, &f.output, listFormats...)
	return command
}

func (f *hostRemoveFlags) remove(cmd *cobra.Command, s *session, names []string) error {
	if err := f.validate(); err != nil {
		return err
	}
	o := provision.RemoveOptions{Client: s, Namespace: s.namespace, Evacuate: f.evacuate, Detach: f.noSSH, Parallel: f.parallel, Timeout: f.timeout}
	user := f.login.User
	if !f.noSSH {
		dialer, err := remote.New(f.login)
		if err != nil {
			return err
		}
		defer func() { _ = dialer.Close() }()
		o.Dial, user = dialer.Dial, dialer.User()
	}
	departures, err := departuresOf(names, f.ssh, user)
	if err != nil {
		return err
	}
	if o.Server, err = f.serverOf(cmd.Context(), s); err != nil {
		return err
	}
	what := "Everything of Slipway is removed from the machines"
	if f.noSSH {
		what = "Their machines are left as they are"
	}
	if err := f.confirm(cmd, s, "Remove "+strings.Join(names, ", "), what); err != nil {
		return err
	}
	lines := &progressLines{out: cmd.ErrOrStderr(), byName: true}
	o.Report, o.Finished = lines.step, lines.finished
	results, err := provision.Remove(cmd.Context(), o, departures)
	if err != nil {
		return err
	}
	return errors.Join(machineResults(results).write(cmd.OutOrStdout(), f.output), failures(results))
}

// serverOf is the address by which hosts know the management cluster; empty when only the
// hosts can tell, as where the kubeconfig leads through a tunnel.
func (f *hostRemoveFlags) serverOf(ctx context.Context, s *session) (string, error) {
	if f.noSSH {
		return "", nil
	}
	endpoint, err := s.cluster.Endpoint(ctx, s, s.namespace, f.server)
	if err != nil && f.server == "" {
		return "", nil
	}
	return endpoint.Server, err
}

// departuresOf are the hosts that are named, each once, with the machines that are given.
func departuresOf(names, machines []string, user string) ([]provision.Departure, error) {
	var departures []provision.Departure
	for _, name := range names {
		if !slices.ContainsFunc(departures, func(d provision.Departure) bool { return d.Name == name }) {
			departures = append(departures, provision.Departure{Name: name})
		}
	}
	for _, text := range machines {
		name, address, named := strings.Cut(text, "=")
		if !named {
			if len(departures) > 1 {
				return nil, fmt.Errorf("--ssh %s: with several hosts, say of which: HOST=%s", text, text)
			}
			name, address = departures[0].Name, text
		}
		address, err := remote.Normalize(address, user)
		if err != nil {
			return nil, fmt.Errorf("--ssh: %w", err)
		}
		i := slices.IndexFunc(departures, func(d provision.Departure) bool { return d.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("--ssh %s: %s is none of the hosts to remove: %s", text, name, strings.Join(names, ", "))
		case departures[i].Address != "":
			return nil, fmt.Errorf("--ssh: host %s has two machines, %s and %s", name, departures[i].Address, address)
		}
		departures[i].Address = address
	}
	return departures, nil
}
