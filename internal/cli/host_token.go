package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/enroll"
	"github.com/slipway-dev/slipway/internal/provision"
)

func hostTokenCommand(p *Program) *cobra.Command {
	var (
		server      string
		ttl         time.Duration
		uses        int
		joinCommand bool
		format      string
	)
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "token [HOST...]",
		Short: "Create a bootstrap token and print what a host enrolls with",
		Long: `Make a bootstrap token and print the kubeconfig an agent enrolls with. Put it on the
host as ` + enroll.BootstrapKubeconfigPath + ` (mode 0600), write ` + enroll.AgentConfigPath + `
and start slipway-agent. It holds a secret: until it expires, whoever has it may enroll
so many machines: one for each HOST, under these names; without names one, under any;
or --uses. Then it is deleted. Machines that the namespace knows already, by their key,
take no use: --uses 0 is for hosts that "clusterctl move" brings, or that lost their
certificate, and enrolls nobody else.

With --join-command print a line to run on the host as root, one for each name, which
writes both files. It carries the CA of the management cluster, and verifies the server
before it writes anything.

With --format print a whole document that enrolls machines which have slipway-agent, and
starts it: a shell script for root, cloud-init's user data, or an Ansible playbook whose
inventory calls the machines as their hosts. Keep it readable by you alone.`,
		Example: `  slipway host token rack1-a rack1-b --server https://10.0.0.1:6443
  slipway host token rack1-a --join-command
  slipway host token rack1-a --format cloud-init --ttl 15m
  slipway host token rack1-a rack1-b --format ansible
  slipway host token --uses 12 --ttl 15m`,
		RunE: f.on(func(cmd *cobra.Command, s *session, hosts []string) error {
			if ttl <= 0 {
				return errors.New("--ttl: want a positive duration, for example 1h")
			}
			if format != "" {
				if err := provision.Format(format).Check(hosts); err != nil {
					return fmt.Errorf("--format: %w", err)
				}
			}
			endpoint, err := s.cluster.Endpoint(cmd.Context(), s, s.namespace, server)
			if err != nil {
				return err
			}
			token, err := enroll.NewToken()
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("uses") {
				uses = max(len(hosts), 1)
			}
			if err := enroll.Ensure(cmd.Context(), s, enroll.Token{Value: token, Namespace: s.namespace, Hosts: hosts, Uses: uses, Life: ttl}); err != nil {
				return err
			}
			if joinCommand {
				return printJoinCommands(cmd.OutOrStdout(), hosts, join.Options{Server: endpoint.Server, CA: endpoint.CA, Token: token, Namespace: s.namespace})
			}
			if format != "" {
				enrollment := provision.Enrollment{Server: endpoint.Server, CA: endpoint.CA, Token: token, Namespace: s.namespace, Hosts: hosts, Unit: config.AgentUnit}
				document, err := enrollment.Write(provision.Format(format))
				if err == nil {
					_, err = cmd.OutOrStdout().Write(document)
				}
				return err
			}
			kubeconfig, err := join.BootstrapKubeconfig(endpoint.Server, endpoint.CA, token)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(kubeconfig)
			return err
		}),
	}
	f.bind(command, "the hosts enroll into")
	command.Flags().StringVar(&server, "server", "", "address of the API server as the hosts see it; by default as a plane listens for other machines, as its local hosts see it, or as the kubeconfig says")
	command.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is good for")
	command.Flags().IntVar(&uses, "uses", 0, "how many machines it enrolls; by default one for each HOST, or one")
	command.Flags().BoolVar(&joinCommand, "join-command", false, "print the command that enrolls a host, one for each name")
	command.Flags().StringVar(&format, "format", "", "print what enrolls hosts as shell, cloud-init or ansible")
	completeFlag(command, "format", []string{string(provision.FormatShell), string(provision.FormatCloudInit), string(provision.FormatAnsible)})
	command.MarkFlagsMutuallyExclusive("join-command", "format")
	return command
}

// printJoinCommands writes a line for each host; without names one for any.
func printJoinCommands(out io.Writer, hosts []string, o join.Options) error {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	for _, o.HostName = range hosts {
		args, err := join.Args(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "slipway-agent", strings.Join(args, " ")); err != nil {
			return err
		}
	}
	return nil
}
