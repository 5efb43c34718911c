package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/text"
)

// rebootFlags say how the hosts of a cluster are rebooted.
type rebootFlags struct {
	managementFlags
	round   change.Round
	dryRun  bool
	timeout time.Duration
	output  string
}

// rebootRound is what the command shows.
type rebootRound struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	change.Round
	// Done is false while hosts are yet to be rebooted.
	Done  bool                `json:"done"`
	Hosts []change.HostReboot `json:"hosts"`
}

func clusterRebootCommand(p *Program) *cobra.Command {
	f := &rebootFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "reboot CLUSTER",
		Short: "Drain and reboot a cluster's hosts, one failure domain after another",
		Long: `Drain and reboot the hosts of a cluster, as for a newer kernel: control planes first and one at a
time, then one failure domain after another. At most --max-unavailable hosts are away at the same time;
a host whose Node is not ready counts. Disruption budgets hold up a drain, and a host that is not back
ready ends the round.

The round is recorded on the Cluster and each host's part of it on its HostMachine. After an interruption
the same command goes on with it, on any machine; two at the same time do the same. A control plane of
fewer than three hosts is left out.

It takes the verbs get and patch on clusters, list on machines and hosts, and list and patch on
hostmachines.`,
		Example: `  slipway cluster reboot prod --if-needed --dry-run
  slipway cluster reboot prod --pool pool --max-unavailable 2 --reason 'kernel 6.12.57'`,
		Args:              cobra.ExactArgs(1),
		RunE:              f.on(func(cmd *cobra.Command, s *session, args []string) error { return f.run(cmd, s, args[0]) }),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command, "of the cluster")
	flags := command.Flags()
	flags.StringVar(&f.round.Pool, "pool", "", "only hosts of this pool or machine deployment; control planes and all workers when empty")
	_ = command.RegisterFlagCompletionFunc("pool", f.completePoolNames())
	flags.BoolVar(&f.round.IfNeeded, "if-needed", false, "only hosts whose operating system asks for a reboot")
	flags.IntVar(&f.round.MaxUnavailable, "max-unavailable", 1, "how many hosts may be away at the same time")
	flags.StringVar(&f.round.Reason, "reason", "", "why, for others who look at the hosts; their events show it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the order, and change nothing")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long to wait for a change; the round stays recorded after that")
	outputFlag(command, &f.output, listFormats...)
	return command
}

func (f *rebootFlags) run(cmd *cobra.Command, s *session, name string) error {
	if f.round.MaxUnavailable < 1 || f.timeout <= 0 {
		return errors.New("--max-unavailable: want at least 1; --timeout: want a positive duration, for example 30m")
	}
	cluster, err := getCluster(cmd.Context(), cmd, s, name)
	if err != nil {
		return err
	}
	members, err := rebootMembers(cmd.Context(), s, name)
	if err != nil {
		return err
	}
	f.round.Began = time.Now().UTC().Format(time.RFC3339)
	if all := f.round.Reboots(members); len(all) == 0 {
		return fmt.Errorf("Cluster %s has no hosts in %q; `%s cluster describe %s -n %s` shows its pools", name, f.round.Pool, cmd.Root().CommandPath(), name, s.namespace) //nolint:staticcheck // a kind begins it
	}
	err = change.Live(cmd.Context(), s, s.key(name), cluster, func() error { return f.begin(cmd.Context(), s, cluster) })
	if err != nil {
		return err
	}
	shown := rebootRound{Namespace: s.namespace, Cluster: name, Round: f.round, Hosts: f.round.Reboots(members)}
	if !f.dryRun {
		err = f.follow(cmd, s, cluster, &shown)
	}
	return errors.Join(shown.result().write(cmd.OutOrStdout(), f.output), err)
}

// begin records the round, or goes on with the one that the Cluster has.
func (f *rebootFlags) begin(ctx context.Context, s *session, cluster *clusterv1.Cluster) error {
	round, err := change.RoundOf(cluster)
	switch {
	case err != nil:
		return err
	case !cluster.DeletionTimestamp.IsZero() || ptr.Deref(cluster.Spec.Paused, false):
		return fmt.Errorf("the Cluster %s is paused or being deleted, so that none of its hosts is rebooted", cluster.Name)
	case round != nil && (round.Pool != f.round.Pool || round.IfNeeded != f.round.IfNeeded):
		return fmt.Errorf("the round that began at %s, with --pool=%q and --if-needed=%t, is not over: give the same, or end it: kubectl annotate cluster %s -n %s %s-",
			round.Began, round.Pool, round.IfNeeded, cluster.Name, cluster.Namespace, infrav1.RebootRoundAnnotation)
	case round != nil:
		f.round.Began = round.Began
		return nil
	case f.dryRun:
		return nil
	}
	if err := change.BeginRound(ctx, s, cluster, f.round); err != nil {
		return err
	}
	_ = change.Record(ctx, s, cluster, "Reboot", f.round.Reason)
	return nil
}

// follow reboots one host after the other until the round is over, one fails, or nothing changes for too long.
func (f *rebootFlags) follow(cmd *cobra.Command, s *session, cluster *clusterv1.Cluster, shown *rebootRound) error {
	ctx, said, since := cmd.Context(), map[string]string{}, time.Now()
	for {
		members, err := rebootMembers(ctx, s, cluster.Name)
		if err == nil {
			shown.Hosts = f.round.Reboots(members)
			if f.tell(cmd, shown.Hosts, said) {
				since = time.Now()
			}
			if change.Over(shown.Hosts) {
				shown.Done = true
				return errors.Join(f.end(ctx, s, cluster), leftOut(shown.Hosts))
			}
			if err := rebootFailed(cmd, shown.Hosts); err != nil {
				return err
			}
			err = f.request(ctx, s, shown.Hosts)
		}
		if err != nil && !answer.Passing(err) && !apierrors.IsConflict(err) {
			return err
		}
		if time.Since(since) > f.timeout {
			return fmt.Errorf("nothing has changed for %s; the round is recorded, and the same command goes on with it", f.timeout)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no further host is rebooted; the same command goes on: %w", context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

// request has the next hosts reboot. What another command has requested meanwhile is a conflict.
func (f *rebootFlags) request(ctx context.Context, s *session, all []change.HostReboot) error {
	for _, next := range f.round.Next(all) {
		if err := change.RebootInRound(ctx, s, next.Of.HostMachine, f.round); err != nil {
			return err
		}
		_ = change.Record(ctx, s, next.Of.Host, "Reboot", f.round.Reason)
	}
	return nil
}

func (f *rebootFlags) end(ctx context.Context, s *session, cluster *clusterv1.Cluster) error {
	return change.Live(ctx, s, s.key(cluster.Name), cluster, func() error {
		if round, err := change.RoundOf(cluster); err != nil || round == nil || round.Began != f.round.Began {
			return err
		}
		return change.EndRound(ctx, s, cluster)
	})
}

// tell writes what has changed of hosts that are rebooted, and says whether anything has.
func (f *rebootFlags) tell(cmd *cobra.Command, all []change.HostReboot, said map[string]string) (changed bool) {
	for _, h := range all {
		now := string(h.State)
		if h.Message != "" {
			now += ": " + text.OneLine(h.Message)
		}
		if said[h.Machine] == now {
			continue
		}
		changed, said[h.Machine] = true, now
		if h.State == change.RebootUnderWay || h.State == change.RebootDone {
			_ = display.WriteVisible(cmd.ErrOrStderr(), fmt.Sprintf("%s  %s  %s\n", time.Now().Format(time.TimeOnly), h.Host, now))
		}
	}
	return changed
}

func rebootFailed(cmd *cobra.Command, all []change.HostReboot) error {
	for _, h := range all {
		if h.State == change.RebootFailed {
			return fmt.Errorf("host %s: %s. No further host is rebooted. Repair it and reboot it: `%s host reboot %[1]s --drain -n %[4]s`; then the same command goes on",
				h.Host, h.Message, cmd.Root().CommandPath(), h.Of.Host.Namespace)
		}
	}
	return nil
}

// leftOut is an error for hosts that a round that is over did not reboot.
func leftOut(all []change.HostReboot) error {
	var errs []error
	for _, h := range all {
		if h.State == change.RebootLeftOut && h.ControlPlane {
			errs = append(errs, fmt.Errorf("host %s is left out: %s", h.Host, h.Message))
		}
	}
	return errors.Join(errs...)
}

// rebootMembers reads the Machines of a cluster, and what they run on.
func rebootMembers(ctx context.Context, s *session, cluster string) ([]change.RebootMember, error) {
	of := []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}}
	machines, hostMachines, hosts := &clusterv1.MachineList{}, &infrav1.HostMachineList{}, &infrav1.HostList{}
	if err := errors.Join(s.List(ctx, hostMachines, of...), s.List(ctx, machines, of...), s.List(ctx, hosts, of[0])); err != nil {
		return nil, err
	}
	byName, byMachine := map[string]*infrav1.HostMachine{}, map[string]*infrav1.Host{}
	for i := range hostMachines.Items {
		byName[hostMachines.Items[i].Name] = &hostMachines.Items[i]
	}
	for i := range hosts.Items {
		if claim := hosts.Items[i].Spec.Claim; claim != nil {
			byMachine[claim.MachineName+"/"+claim.ClaimID] = &hosts.Items[i]
		}
	}
	var members []change.RebootMember
	for i := range machines.Items {
		member := change.RebootMember{Machine: &machines.Items[i]}
		if of := byName[member.Machine.Spec.InfrastructureRef.Name]; of != nil {
			member.HostMachine, member.Host = of, byMachine[of.Name+"/"+of.Spec.ClaimID]
		}
		members = append(members, member)
	}
	return members, nil
}

func (r *rebootRound) result() result {
	shown := result{object: r, table: func(out *display.Page, _ bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "HOST\tPOOL\tDOMAIN\tSTATE\tMESSAGE")
		for _, h := range r.Hosts {
			pool := h.Pool
			if h.ControlPlane {
				pool = "control plane"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Host, pool, h.FailureDomain, h.State, text.OneLine(h.Message))
		}
		return w.Flush()
	}}
	for _, h := range r.Hosts {
		shown.names = append(shown.names, hostName(h.Host))
	}
	return shown
}
