package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// Sentinel is the file that bootstrap data writes when kubeadm succeeded (the
// contract of Cluster API's bootstrap providers).
const Sentinel = "/run/cluster-api/bootstrap-success.complete"

// LogFile receives the output of the bootstrap commands, readable by root only. It is that
// of one claim: see BeginLog.
const LogFile = "/var/log/slipway-bootstrap.log"

// Applier carries out a cloud-config.
type Applier struct {
	Root   hostfs.Root
	Runner command.Runner
	// Shell runs the command groups.
	Shell Shell
	// Hostname and SetHostname are those of the running system.
	Hostname    func() (string, error)
	SetHostname func(name string) error
	// Keep records what files are before they are changed; withContent false keeps mode and
	// owner alone.
	Keep func(paths []string, withContent bool, progress operation.Progress) error
}

// Apply carries out the whole configuration. Files and users it makes are
// recorded before they exist.
func (a Applier) Apply(ctx context.Context, config *cloudconfig.Config, progress operation.Progress) error {
	if err := durable.RemoveIn(string(a.Root), Sentinel); err != nil {
		return err
	}
	steps := []struct {
		name string
		skip bool
		run  func() error
	}{
		{"bootcmd", len(config.BootCommands) == 0, func() error { return a.commands(ctx, "bootcmd", config.BootCommands, progress) }},
		{"write_files", len(config.WriteFiles) == 0, func() error { return a.writeFiles(config.WriteFiles, false, progress) }},
		{"hostname", config.Hostname.Preserve, func() error { return a.hostname(config.Hostname, progress) }},
		{"users", len(config.Users) == 0, func() error { return a.users(ctx, config.Users, progress) }},
		{"ntp", config.NTP == nil || !config.NTP.Enabled, func() error { return a.ntp(ctx, *config.NTP, progress) }},
		{"write_files, deferred", !hasDeferred(config.WriteFiles), func() error { return a.writeFiles(config.WriteFiles, true, progress) }},
		{"runcmd", len(config.RunCommands) == 0, func() error { return a.run(ctx, config.RunCommands, progress) }},
	}
	for _, s := range steps {
		if s.skip {
			continue
		}
		if err := operation.Step(progress, s.name, s.run); err != nil {
			return err
		}
	}
	return nil
}

// run executes runcmd, of which only a reset can undo a part.
func (a Applier) run(ctx context.Context, commands []string, progress operation.Progress) error {
	if err := progress.Update(func(s *journal.State) { s.Residue = journal.ResidueCommands }); err != nil {
		return err
	}
	if err := a.commands(ctx, "runcmd", commands, progress); err != nil {
		return err
	}
	return a.checkSentinel(commands)
}

// checkSentinel holds the data to its own promise: when it writes the sentinel,
// the sentinel must be there.
func (a Applier) checkSentinel(commands []string) error {
	for _, c := range commands {
		if !strings.Contains(c, Sentinel) {
			continue
		}
		if _, err := os.Stat(a.Root.Path(Sentinel)); err != nil {
			return &operation.Error{Reason: operation.ReasonCommandFailed, Err: err, Message: fmt.Sprintf(
				"every bootstrap command succeeded, but %s is missing; see %s on the host", Sentinel, LogFile)}
		}
	}
	return nil
}

func (a Applier) commands(ctx context.Context, group string, commands []string, progress operation.Progress) error {
	var began int64
	last, err := a.Shell.Run(ctx, group, commands, func(i int) error {
		began = logSize(a.Root)
		return progress.Begin(stepName(group, i, len(commands)))
	})
	if err == nil {
		return nil
	}
	exit := (*command.ExitError)(nil)
	if !errors.As(err, &exit) {
		return err
	}
	what := fmt.Sprintf("ended with exit code %d", exit.Code)
	if exit.Code == 0 {
		what = "ended the shell before the commands after it"
	}
	failed := &operation.Error{Reason: operation.ReasonCommandFailed, Err: err}
	if said := kubeadmErrors(a.Root, began); len(said) > 0 && strings.Contains(commands[last], "kubeadm") {
		what += ": " + quote(said)
		if r := refusedBy(said); r != nil {
			failed.Reason, failed.Retry, failed.Tries = r.reason, operation.RetryWhenAccepted, r.tries
			what += "; " + r.means
		}
	}
	failed.Message = fmt.Sprintf("%s %s; its output is in %s on the host", stepName(group, last, len(commands)), what, LogFile)
	return failed
}

func stepName(group string, index, count int) string {
	return fmt.Sprintf("%s %d of %d", group, index+1, count)
}

func hasDeferred(files []cloudconfig.File) bool {
	for _, f := range files {
		if f.Defer {
			return true
		}
	}
	return false
}
