package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

func hostCordonCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("cordon HOST...", "Keep hosts from being claimed",
		`Keep hosts from being claimed (spec.unschedulable). A machine that has one keeps it: to empty a
host, evacuate it. It takes the verbs get and patch on hosts.`,
		"  slipway host cordon rack1-a --reason 'fan replaced on Friday' -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return change.Cordon(ctx, s, h, f.reason)
				},
				done: func(*infrav1.Host) (bool, error) { return true, nil },
			}
		})
}

func hostUncordonCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("uncordon HOST...", "Let hosts be claimed again, after cordon and evacuate",
		`Let hosts be claimed again: the end of cordon and of evacuate (spec.unschedulable and
spec.evacuate). It takes the verbs get and patch on hosts.`,
		"  slipway host uncordon rack1-a -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return change.Uncordon(ctx, s, h)
				},
				done: func(*infrav1.Host) (bool, error) { return true, nil },
			}
		})
}

func hostEvacuateCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}, timeout: 30 * time.Minute}
	command := f.command("evacuate HOST...", "Empty hosts for maintenance",
		`Empty hosts for maintenance (spec.evacuate), and wait until they are free and clean. Nobody claims
them. A pool replaces its machine on one within its rollout strategy, once another host is free: with
a surge the new machine comes first, then the old one is drained and deleted, and the host resets.
Machines of anybody else are named, for you to delete.

After an interruption the same command goes on. slipway host uncordon gives a host back. It takes
the verbs get and patch on hosts, and get on hostmachines.`,
		"  slipway host evacuate rack1-a --reason 'new disks' -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return change.Evacuate(ctx, s, h, f.reason)
				},
				done: func(h *infrav1.Host) (bool, error) {
					state := hosts.StateOf(h)
					if state.Quarantined() {
						return false, errors.New(state.Message)
					}
					return h.Spec.Claim == nil && !hosts.Releasing(h), nil
				},
				waits: "its pool replaces the machine once another host fits",
			}
		})
	command.Aliases = []string{"drain"}
	return command
}

func hostRebootCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	drain := false
	command := f.command("reboot HOST...", "Reboot hosts that machines have",
		`Reboot hosts of machines once each (spec.reboots and spec.rebootPolicy of their HostMachines), one
after the other: the next one when the former runs again, none after one that does not. An upgrade that
failed on a host is tried again with the reboot. While a reboot is under way, none is added.

With --drain the agent cordons the Node and evicts its pods first, as their disruption budgets allow, and
uncordons it when it is ready again. It waits while a reboot would end the quorum of etcd. Pods that hold
it up longer than the agent's drainTimeout (10m) fail the reboot, and the Node serves on. Without --drain
pods start again with their node, and a reboot that drains is overtaken.

It takes the verb get on hosts, and get and patch on hostmachines.`,
		"  slipway host reboot rack1-a -n prod\n  slipway host reboot rack1-a rack1-b --drain --timeout 30m --reason 'new kernel' -n prod", func() hostRequest {
			var wanted int32
			policy := infrav1.RebootImmediate
			if drain {
				policy = infrav1.RebootDrain
			}
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) (err error) {
					wanted, err = change.Reboot(ctx, s, h, policy)
					return err
				},
				done:     func(h *infrav1.Host) (bool, error) { return rebootDone(h, wanted) },
				waits:    "the agent reboots the host",
				oneByOne: true,
			}
		})
	command.Flags().BoolVar(&drain, "drain", false, "evict the pods first")
	return command
}

// rebootDone says whether a host has had so many reboots and runs; it is an error when the last one failed.
func rebootDone(h *infrav1.Host, wanted int32) (bool, error) {
	if h.Spec.Desired == nil || ptr.Deref(h.Spec.Desired.Reboots, 0) < wanted {
		return false, nil
	}
	state := hosts.StateOf(h)
	if state.Phase == infrav1.HostPhaseFailed {
		return false, errors.New(state.Message)
	}
	return state.Phase == infrav1.HostPhaseRunning, nil
}

func hostReplaceCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}, timeout: 30 * time.Minute}
	return f.command("replace HOST...", "Replace the machines on hosts",
		`Drain and delete the Machines on hosts, and wait until the hosts are free and clean: the owner of each
makes another one on another host. A Machine that nobody would make again is refused.

It takes the verbs get on hosts and hostmachines, and get and delete on machines.`,
		"  slipway host replace rack1-a --reason 'disk errors' -n prod", func() hostRequest {
			claim := ""
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					if h.Spec.Claim != nil {
						claim = h.Spec.Claim.ClaimID
					}
					return change.Replace(ctx, s, h)
				},
				done: func(h *infrav1.Host) (bool, error) {
					state := hosts.StateOf(h)
					if state.Quarantined() {
						return false, errors.New(state.Message)
					}
					return (h.Spec.Claim == nil || h.Spec.Claim.ClaimID != claim) && !hosts.Releasing(h), nil
				},
				waits: "the machine is drained and the host resets",
				loses: "Their pods are evicted, and their machines deleted",
			}
		})
}
