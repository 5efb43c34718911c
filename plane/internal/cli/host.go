package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/enroll"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
)

func hostCommand(g *global) *cobra.Command {
	command := &cobra.Command{
		Use:   "host",
		Short: "Look at hosts, enter them, and break and mend them",
	}
	command.AddCommand(hostListCommand(g), hostTokenCommand(g), hostShellCommand(g), hostLogsCommand(g),
		hostAction(g, "power-cycle", "Cut the power of a local host and switch it on again",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.PowerCycle(ctx, host) }),
		hostAction(g, "power-off", "Cut the power of a local host and leave it off",
			func(ctx context.Context, m *localhost.Manager, host string) error {
				return m.PowerOff(ctx, host, false)
			}),
		hostAction(g, "power-on", "Switch a local host on",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Boot(ctx, host) }),
		hostAction(g, "cut", "Unplug the network of a local host",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Cut(ctx, host) }),
		hostAction(g, "heal", "Plug the network of a local host in again",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Heal(ctx, host) }),
	)
	return command
}

// manager of the local hosts of an instance. The programs of the hosts lie
// beside this one.
func manager(inst *instance.Instance) (*localhost.Manager, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	bin := filepath.Dir(self)
	return &localhost.Manager{
		StateDir: inst.Dir, Name: inst.Name, Bundle: inst.Bundle,
		Sandbox: filepath.Join(bin, "slipway-sandbox"), Agent: filepath.Join(bin, "slipway-agent"),
	}, nil
}

// hostAction is a command that does one thing to one local host.
func hostAction(g *global, name, short string, act func(context.Context, *localhost.Manager, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               name + " HOST",
		Short:             short,
		Args:              hostArgs(1, 1),
		ValidArgsFunction: completeHosts(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			inst, err := g.open()
			if err != nil {
				return err
			}
			m, err := manager(inst)
			if err != nil {
				return err
			}
			begin := time.Now()
			if err := act(cmd.Context(), m, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s done in %.1fs\n", args[0], name, time.Since(begin).Seconds())
			return err
		},
	}
}

// hostArgs accepts the name of a host and what may follow it; most < 0 means any
// number.
func hostArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return fmt.Errorf("want `%s`; `slipway host list` shows the hosts", cmd.UseLine())
		}
		return nil
	}
}

func completeHosts(g *global) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		inst, err := g.open()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		m, err := manager(inst)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		hosts, _ := m.List(cmd.Context())
		names := make([]string, 0, len(hosts))
		for _, h := range hosts {
			names = append(names, h.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func hostTokenCommand(g *global) *cobra.Command {
	var (
		namespace, server string
		ttl               time.Duration
	)
	command := &cobra.Command{
		Use:   "token",
		Short: "Make a bootstrap token and print the kubeconfig an agent enrolls with",
		Long: `Make a bootstrap token for hosts of a namespace and print the kubeconfig an agent
enrolls with. Put it on the host as ` + enroll.BootstrapKubeconfigPath + ` (mode 0600), write
` + enroll.AgentConfigPath + ` and start slipway-agent. It holds a secret: whoever has it may
enroll hosts until it expires.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ttl <= 0 {
				return errors.New("--ttl: want a positive duration, for example 1h")
			}
			inst, err := g.open()
			if err != nil {
				return err
			}
			c, err := planeclient.New(inst)
			if err != nil {
				return err
			}
			token, err := enroll.NewToken()
			if err != nil {
				return err
			}
			ca, err := planeclient.CA(inst)
			if err != nil {
				return err
			}
			if err := enroll.EnsureToken(cmd.Context(), c, token, namespace, ttl); err != nil {
				return err
			}
			if server == "" {
				server = inst.Server()
			}
			kubeconfig, err := enroll.BootstrapKubeconfig(server, ca, token)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(kubeconfig)
			return err
		},
	}
	command.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace the hosts enroll into")
	command.Flags().StringVar(&server, "server", "", "address of the plane's API server as the hosts see it; as local hosts do by default")
	command.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is good for")
	return command
}
