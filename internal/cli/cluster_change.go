package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/answer"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/internal/text"
)

// clusterChangeFlags say what to change of a cluster.
type clusterChangeFlags struct {
	managementFlags
	waitFlags
	output string
}

func clusterScaleCommand(p *Program) *cobra.Command {
	f := &clusterChangeFlags{managementFlags: managementFlags{program: p}}
	var controlPlanes int32
	var pools []string
	command := &cobra.Command{
		Use:   "scale CLUSTER",
		Short: "Change the number of a cluster's machines",
		Example: `  slipway cluster scale prod --pool pool=8 --wait
  slipway cluster scale prod --control-planes 3`,
		Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			to := clusters.Change{}
			if cmd.Flags().Changed("control-planes") {
				to.ControlPlanes = &controlPlanes
			} else if len(pools) == 0 {
				return fmt.Errorf("say what to change: --control-planes, --pool, or both; `%s --help`", cmd.CommandPath())
			}
			var err error
			if to.Pools, err = clusters.ParsePools(pools); err != nil {
				return err
			}
			return f.change(cmd, s, args[0], to)
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.managementFlags.bind(command, "of the cluster")
	command.Flags().Int32Var(&controlPlanes, "control-planes", 0, "how many control planes: 1, 3 or 5")
	command.Flags().StringArrayVar(&pools, "pool", nil, "pool or machine deployment of the topology, as NAME=REPLICAS; may be given several times")
	_ = command.RegisterFlagCompletionFunc("pool", f.completePools())
	f.waitFlags.bind(command, "there are as many")
	outputFlag(command, &f.output, listFormats...)
	return command
}

func clusterUpgradeCommand(p *Program) *cobra.Command {
	f := &clusterChangeFlags{managementFlags: managementFlags{program: p}}
	var version string
	command := &cobra.Command{
		Use:   "upgrade CLUSTER",
		Short: "Upgrade a cluster to another version of Kubernetes",
		Long: `Upgrade the control plane of a cluster, then its workers. Hooks and lifecycle policies
block it like any other change of the version; --wait shows what it waits for.`,
		Example: "  slipway cluster upgrade prod --kubernetes-version v1.36.3 --wait",
		Args:    cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			return f.change(cmd, s, args[0], clusters.Change{Version: version})
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.managementFlags.bind(command, "of the cluster")
	command.Flags().StringVar(&version, "kubernetes-version", "", "version of Kubernetes, such as v1.36.3")
	_ = command.MarkFlagRequired("kubernetes-version")
	_ = command.RegisterFlagCompletionFunc("kubernetes-version", f.complete(versionNames))
	f.waitFlags.bind(command, "all machines are of that version")
	outputFlag(command, &f.output, listFormats...)
	return command
}

// change changes the Cluster as it is now: what others change meanwhile is a conflict, and
// looked at again.
func (f *clusterChangeFlags) change(cmd *cobra.Command, s *session, name string, to clusters.Change) error {
	cluster, err := getCluster(cmd.Context(), cmd, s, name)
	if err != nil {
		return err
	}
	if err := change.Live(cmd.Context(), s, s.key(name), cluster, func() error { return change.Cluster(cmd.Context(), s, cluster, to.Apply) }); err != nil {
		return err
	}
	return f.waitFor(cmd, s, name, f.output)
}

// lookEvery is the pause between two looks at a Cluster that is waited for.
const lookEvery = 2 * time.Second

// waitFor waits, with --wait, until the Cluster has what its spec asks for, and prints its
// state. A Cluster that is deleted meanwhile is an error, also when another one has its name.
func (f *waitFlags) waitFor(cmd *cobra.Command, s *session, name, output string) error {
	var uid types.UID
	deleted := false
	state, err := f.follow(cmd, s, name, func(c *clusterv1.Cluster, err error) (bool, error) {
		if uid == "" {
			uid = c.UID
		}
		if deleted = err != nil || c.UID != uid; deleted {
			return false, fmt.Errorf("the Cluster %s was deleted before it was ready", s.key(name))
		}
		return clusters.Look(c).Reached, nil
	})
	if state != nil && !deleted {
		rows, unread := clusterRows(cmd.Context(), cmd, s, status.Scope{}, []string{name})
		if unread != nil {
			return errors.Join(err, unread)
		}
		err = errors.Join(err, clustersList(rows).result().write(cmd.OutOrStdout(), output))
	}
	return err
}

// follow polls a Cluster until done returns true or an error, and prints what it waits for
// whenever that changes. done also gets the NotFound error of a Cluster that is gone, and has
// to end the wait then. follow tolerates an API server that is unavailable for a moment.
func (f *waitFlags) follow(cmd *cobra.Command, s *session, name string, done func(*clusterv1.Cluster, error) (bool, error)) (*clusters.State, error) {
	var state *clusters.State
	last, begin := "", time.Now()
	look := func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		err := s.Get(ctx, s.key(name), cluster)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, f.unlessAway(err)
		}
		if err == nil {
			seen := clusters.Look(cluster)
			state = &seen
		}
		if is, err := done(cluster, err); is || err != nil || !f.wait {
			return true, err
		}
		if now := fmt.Sprintf("control plane %s, workers %s: %s", state.ControlPlane, state.Workers, text.OneLine(state.Waiting)); now != last {
			last = now
			_ = display.WriteVisible(cmd.ErrOrStderr(), fmt.Sprintf("%4.0fs  %s\n", time.Since(begin).Seconds(), now))
		}
		return false, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, look)
	if err != nil && ctx.Err() != nil && cmd.Context().Err() == nil {
		err = fmt.Errorf("not reached within %s (%s); it goes on, `%s cluster get %s -n %s -o wide` shows how far it is, and `doctor` what may be wrong",
			f.timeout, last, cmd.Root().CommandPath(), name, s.namespace)
	}
	return state, err
}

// unlessAway returns nothing for an error that may be gone at the next poll of a command
// that waits.
func (f *waitFlags) unlessAway(err error) error {
	if f.wait && answer.Passing(err) {
		return nil
	}
	return err
}
