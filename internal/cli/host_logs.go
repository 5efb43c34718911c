package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/redact"
)

// logUnits are what hosts write logs of, by the names of --unit.
var logUnits = []infrav1.HostLogUnit{infrav1.HostLogAgent, infrav1.HostLogContainerd, infrav1.HostLogKernel, infrav1.HostLogKubelet}

func unitNames() []string {
	names := make([]string, len(logUnits))
	for i, u := range logUnits {
		names[i] = strings.ToLower(string(u))
	}
	return names
}

// logsPatience is how long an answer may take that does not follow a log.
const logsPatience = 2 * time.Minute

// logFlags say what is read of a log.
type logFlags struct {
	managementFlags
	unit   string
	since  time.Duration
	lines  int
	follow bool
}

func hostLogsCommand(p *Program) *cobra.Command {
	f := &logFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "logs HOST [UNIT]",
		Short: "Show the log of a host's agent, kubelet, containerd or kernel",
		Long: `Show the log of a part of a host: agent (default), kubelet, containerd or kernel. The agent of the
host reads it, over its own connection to the management cluster (HostLogRequest): at most 5000 lines
of the past and 256 KiB in one answer, without likely credentials, and none from before the
Host was created. An event of the Host says who reads. With -f it goes on for 15 minutes.

It needs the verbs create, watch and delete on hostlogrequests.`,
		Example: `  slipway host logs rack1-a --unit kubelet --since 10m -n prod
  slipway host logs rack1-a -f -n prod`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, complete string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return f.completeHosts()(cmd, args, complete)
			case 1:
				return unitNames(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				f.unit = args[1]
			}
			switch {
			case f.lines < 1 || f.lines > infrav1.HostLogMaxLines:
				return fmt.Errorf("--tail %d: want a number from 1 to %d", f.lines, infrav1.HostLogMaxLines)
			case f.since < 0:
				return fmt.Errorf("--since %s: want a positive duration, for example 10m", f.since)
			}
			cluster, err := f.find(cmd)
			if err != nil {
				return err
			}
			if local, err := f.local(cmd, cluster, args[0]); local || err != nil {
				return err
			}
			s, err := f.session(cluster)
			if err != nil {
				return err
			}
			return s.cluster.Explain(f.show(cmd, s, args[0]))
		},
	}
	if p.Local != nil {
		command.Long += ` Of a local
host the file of the log is read, while the plane is down, too; it also has the log of its init.`
	}
	f.bind(command, "of the host")
	command.Flags().StringVar(&f.unit, "unit", "agent", "part of the host: "+strings.Join(unitNames(), ", "))
	completeFlag(command, "unit", unitNames())
	command.Flags().DurationVar(&f.since, "since", 0, "only lines of this long ago at most, for example 10m")
	command.Flags().IntVar(&f.lines, "tail", infrav1.HostLogDefaultLines, "how many lines of the end to show")
	command.Flags().BoolVarP(&f.follow, "follow", "f", false, "show new lines as they come")
	return command
}

// local shows the log of a local host by its file, and says whether the host is one.
func (f *logFlags) local(cmd *cobra.Command, cluster *management.Cluster, host string) (bool, error) {
	if cluster.Plane == nil {
		return false, nil
	}
	hosts, err := cluster.Plane.LocalHosts(cmd.Context())
	if err != nil || !slices.ContainsFunc(hosts, func(l management.LocalHost) bool {
		return l.Name == host && (f.namespace == "" || f.namespace == l.Namespace)
	}) {
		return false, err
	}
	service := strings.ToLower(f.unit)
	if service == "agent" {
		service = "slipway-agent"
	}
	query := management.LogQuery{Lines: f.lines, Follow: f.follow}
	if f.since > 0 {
		query.Since = time.Now().Add(-f.since)
	}
	out := &redacted{out: cmd.OutOrStdout()}
	err = cluster.Plane.LocalLog(cmd.Context(), out, host, service, query)
	return true, errors.Join(err, out.end())
}

// show requests a log of the agent, and writes it as it comes.
func (f *logFlags) show(cmd *cobra.Command, s *session, name string) error {
	ctx, notes := cmd.Context(), cmd.ErrOrStderr()
	i := slices.IndexFunc(logUnits, func(u infrav1.HostLogUnit) bool { return strings.EqualFold(string(u), f.unit) })
	if i < 0 {
		return fmt.Errorf("--unit %q: want %s", f.unit, strings.Join(unitNames(), ", "))
	}
	request, err := change.RequestLog(ctx, s, s.key(name), change.LogQuery{Unit: logUnits[i], Since: f.since, Lines: f.lines, Follow: f.follow})
	if err != nil {
		return err
	}
	defer func() {
		// Ctrl-C ends it on the host, too.
		if err := change.EndLog(ctx, s, request); err != nil {
			fmt.Fprintln(notes, "The request stays for some minutes:", err)
		}
	}()
	if !f.follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, logsPatience, fmt.Errorf("no answer within %s: check that slipway-manager runs, in the version of this command", logsPatience))
		defer cancel()
	}
	none := true
	message, err := change.ReadLog(ctx, s, request, func(missing int64, lines []string) error {
		none = false
		if missing > 0 {
			fmt.Fprintf(notes, "%d lines are missing: an answer has no room for more.\n", missing)
		}
		return display.WriteVisible(cmd.OutOrStdout(), strings.Join(lines, ""))
	})
	switch {
	case err != nil || ctx.Err() != nil:
	case message != "":
		err = display.WriteVisible(notes, "The log ends: "+message+".\n")
	case none:
		_, err = io.WriteString(notes, "The log has no such lines.\n")
	}
	return err
}

// redacted writes lines without likely credentials and without what steers a terminal, as an agent answers
// them.
type redacted struct {
	out   io.Writer
	lines redact.Lines
	// begun is the line that has no end yet.
	begun []byte
}

func (r *redacted) Write(p []byte) (int, error) {
	r.begun = append(r.begun, p...)
	for {
		line, rest, whole := bytes.Cut(r.begun, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if err := display.WriteVisible(r.out, r.lines.Line(string(line))+"\n"); err != nil {
			return 0, err
		}
		r.begun = rest
	}
}

// end writes the line that has no end.
func (r *redacted) end() error {
	if len(r.begun) == 0 {
		return nil
	}
	_, err := r.Write([]byte("\n"))
	return err
}
