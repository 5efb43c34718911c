package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
)

// hostCommands are those for local hosts.
func hostCommands(g *global) []*cobra.Command {
	return []*cobra.Command{
		hostShellCommand(g),
		hostAction(g, "power-cycle", "Cut the power of a local host and switch it on again",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.PowerCycle(ctx, host) }),
		hostAction(g, "power-off", "Cut the power of a local host and leave it off",
			func(ctx context.Context, m *localhost.Manager, host string) error {
				return m.PowerOff(ctx, host, false)
			}),
		hostAction(g, "power-on", "Switch a local host on",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Boot(ctx, host) }),
		hostAction(g, "cut", "Disconnect the network of a local host",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Cut(ctx, host) }),
		hostAction(g, "heal", "Reconnect the network of a local host",
			func(ctx context.Context, m *localhost.Manager, host string) error { return m.Heal(ctx, host) }),
	}
}

// Programs that the plane runs lie beside this one.
const (
	sandboxProgram   = "slipway-sandbox"
	agentProgram     = "slipway-agent"
	lifecycleProgram = "slipway-lifecycle"
)

// programs are all of them.
var programs = []string{sandboxProgram, agentProgram, lifecycleProgram}

// manager of the local hosts of an instance.
func manager(inst *instance.Instance) (*localhost.Manager, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	bin := filepath.Dir(self)
	return &localhost.Manager{
		StateDir: inst.Dir, Name: inst.Name, Bundle: inst.Bundle,
		Sandbox: filepath.Join(bin, sandboxProgram), Agent: filepath.Join(bin, agentProgram),
	}, nil
}

// lifecycleBeside is the program of lifecycle policies, which lies beside those of the hosts.
func lifecycleBeside(hosts *localhost.Manager) string {
	return filepath.Join(filepath.Dir(hosts.Sandbox), lifecycleProgram)
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
