package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
)

func hostShellCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "shell HOST [-- COMMAND...]",
		Short: "Run a shell, or a command, inside a local host",
		Example: `  slipway host shell host-1
  slipway host shell host-1 -- systemctl status kubelet`,
		Args:              hostArgs(1, -1),
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
			argv := args[1:]
			if len(argv) == 0 {
				argv = []string{"/bin/bash", "-l"}
			}
			code, err := m.Exec(cmd.Context(), args[0], argv, localhost.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
			if err == nil && code != 0 {
				return &cli.ExitError{Code: code}
			}
			return err
		},
	}
}

func hostLogsCommand(g *global) *cobra.Command {
	var (
		follow bool
		lines  int
	)
	command := &cobra.Command{
		Use:   "logs HOST [SERVICE]",
		Short: "Show the log of a service of a local host: agent, kubelet, containerd or init",
		Args:  hostArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, complete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"agent", "kubelet", "containerd", "init"}, cobra.ShellCompDirectiveNoFileComp
			}
			return completeHosts(g)(cmd, args, complete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return fmt.Errorf("--tail %d: want a number of lines", lines)
			}
			inst, err := g.open()
			if err != nil {
				return err
			}
			m, err := manager(inst)
			if err != nil {
				return err
			}
			service := "slipway-agent"
			if len(args) == 2 && args[1] != "agent" {
				service = args[1]
			}
			open := func() (*os.File, error) { return m.OpenLog(args[0], service, "") }
			err = showLog(cmd, open, lines, follow)
			if errors.Is(err, localhost.ErrNotFound) {
				return fmt.Errorf("%w. Hosts that are not local keep their logs themselves: run `journalctl -u slipway-agent` there", err)
			}
			return err
		},
	}
	command.Flags().BoolVarP(&follow, "follow", "f", false, "show new lines as they come")
	command.Flags().IntVar(&lines, "tail", 100, "how many lines of the end to show")
	return command
}

func showLog(cmd *cobra.Command, open func() (*os.File, error), lines int, follow bool) error {
	f, err := open()
	if missing := (*fs.PathError)(nil); errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no log yet at %s: the service has not run", missing.Path)
	}
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	all := strings.SplitAfter(string(data), "\n")
	for _, line := range all[max(0, len(all)-lines-1):] {
		fmt.Fprint(cmd.OutOrStdout(), line)
	}
	if !follow {
		return nil
	}
	return followLog(cmd, open, int64(len(data)))
}

// followLog copies what is appended. A log that was cut starts over.
func followLog(cmd *cobra.Command, open func() (*os.File, error), from int64) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
		f, err := open()
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if info.Size() < from {
			from = 0
		}
		n, err := io.Copy(cmd.OutOrStdout(), io.NewSectionReader(f, from, info.Size()-from))
		from += n
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
}
