package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

func doctorCommand(p *Program) *cobra.Command {
	var (
		output string
		strict bool
		watch  watchFlag
	)
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose problems, and name the command that fixes each",
		Long: `Doctor looks for known failure patterns, such as disconnected hosts, clocks that differ,
expiring tokens and certificates, quarantine, a missing network plugin, waiting hooks
and forgotten pauses. Each finding has what is wrong, where, since when, and the next
command. It changes nothing and uses your own rights; it names what these do not let it
read.

Error: broken, will not recover by itself. Warning: stuck, or about to fail. Note:
intended, but possibly forgotten. It exits with 0 without an error, 2 with one, and 1
when it cannot read the cluster.`,
		Example: "  slipway doctor -n prod\n  slipway doctor -o json | jq '.findings[] | select(.severity == \"error\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, scope, err := f.target(cmd)
			if err != nil {
				return err
			}
			var report doctor.Report
			err = watch.show(cmd, output, func(ctx context.Context) (result, error) {
				var err error
				report, err = diagnose(ctx, cluster, scope)
				return doctorResult(report), cluster.Explain(err)
			})
			switch {
			case err != nil || watch.watch:
				return err
			case report.Count(doctor.Error) > 0 || strict && report.Count(doctor.Warning) > 0:
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	f.bind(command)
	watch.bind(command)
	command.Flags().BoolVar(&strict, "strict", false, "end with 2 for warnings, too")
	outputFlag(command, &output, listFormats...)
	return command
}

// diagnose looks at a management cluster. That a plane of this machine does not answer is a
// finding; any other cluster has to.
func diagnose(ctx context.Context, cluster *management.Cluster, scope status.Scope) (doctor.Report, error) {
	now := time.Now()
	var plane *status.Plane
	if cluster.Plane != nil {
		known, err := cluster.Hosts(ctx, scope)
		if err != nil {
			return doctor.Report{}, err
		}
		plane = &known.Plane
	}
	s, err := readSnapshot(ctx, cluster, scope, now)
	switch {
	case err != nil && (plane == nil || plane.Ready):
		return doctor.Report{}, err
	case err != nil:
		s = &doctor.Snapshot{Now: now, Scope: scope}
		s.Unread = []doctor.Unread{{Kind: "anything in the plane", Message: err.Error()}}
	}
	s.Plane = plane
	return doctor.Diagnose(s), nil
}

func readSnapshot(ctx context.Context, cluster *management.Cluster, scope status.Scope, now time.Time) (*doctor.Snapshot, error) {
	c, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	return doctor.Read(ctx, c, scope, now)
}

func doctorResult(report doctor.Report) result {
	shown := result{object: report, state: doctor.Report{Findings: report.Findings, Unread: report.Unread}, table: func(page *display.Page, wide bool) error {
		doctor.Render(page, report, wide)
		return nil
	}}
	for i := range report.Findings {
		if object := report.Findings[i].Object; object.APIVersion != "" {
			shown.names = append(shown.names, object.Resource())
		}
	}
	return shown
}
