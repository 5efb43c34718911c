package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// keepBack patches a Host, and records why.
func (f *requestFlags) keepBack(ctx context.Context, s *session, h *infrav1.Host, set func(*infrav1.HostSpec)) error {
	before := h.DeepCopy()
	set(&h.Spec)
	if f.reason != "" {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.MaintenanceReasonAnnotation, f.reason)
	}
	return s.Patch(ctx, h, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (f *requestFlags) bindReason(command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(&f.reason, "reason", "", "why, for others who look at the host; slipway doctor shows it")
	return command
}

func hostCordonCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.bindReason(f.command("cordon HOST...", "Keep hosts from being claimed",
		`Keep hosts from being claimed (spec.unschedulable). A machine that has one keeps it: to empty a
host, evacuate it. It takes the verbs get and patch on hosts.`,
		"  slipway host cordon rack1-a --reason 'fan replaced on Friday' -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return f.keepBack(ctx, s, h, func(spec *infrav1.HostSpec) { spec.Unschedulable = ptr.To(true) })
				},
				done: func(*infrav1.Host) (bool, error) { return true, nil },
			}
		}))
}

func hostUncordonCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("uncordon HOST...", "Let hosts be claimed again, after cordon and evacuate",
		`Let hosts be claimed again: the end of cordon and of evacuate (spec.unschedulable and
spec.evacuate). It takes the verbs get and patch on hosts.`,
		"  slipway host uncordon rack1-a -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					return f.keepBack(ctx, s, h, func(spec *infrav1.HostSpec) {
						spec.Unschedulable, spec.Evacuate = nil, nil
						delete(h.Annotations, infrav1.MaintenanceReasonAnnotation)
					})
				},
				done: func(*infrav1.Host) (bool, error) { return true, nil },
			}
		})
}

func hostEvacuateCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}, timeout: 30 * time.Minute}
	return f.bindReason(f.command("evacuate HOST...", "Empty hosts for maintenance",
		`Empty hosts for maintenance (spec.evacuate), and wait until they are free and clean. Nobody claims
them. A pool replaces its machine on one within its rollout strategy, once another host is free: with
a surge the new machine comes first, then the old one is drained and deleted, and the host resets.
Machines of anybody else are named, for you to delete.

After an interruption the same command goes on. slipway host uncordon gives a host back. It takes
the verbs get and patch on hosts, and get on hostmachines.`,
		"  slipway host evacuate rack1-a --reason 'new disks' -n prod", func() hostRequest {
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) error {
					if err := f.keepBack(ctx, s, h, func(spec *infrav1.HostSpec) { spec.Evacuate = ptr.To(true) }); err != nil {
						return err
					}
					return leavesItself(ctx, s, h)
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
		}))
}

// leavesItself refuses to wait for a machine that nobody replaces.
func leavesItself(ctx context.Context, s *session, h *infrav1.Host) error {
	if h.Spec.Claim == nil || hosts.Releasing(h) {
		return nil
	}
	machine, err := machineOf(ctx, s, h)
	if err != nil {
		return err
	}
	switch hosts.TenantOf(h, machine) {
	case hosts.TenantGone:
		return fmt.Errorf("it is evacuated, and the machine that has it is gone without a reset: slipway host reset %s -n %s", h.Name, h.Namespace)
	case hosts.TenantLeaves, hosts.TenantOfPool:
		return nil
	case hosts.TenantStays:
	}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == "Machine" {
			return fmt.Errorf("it is evacuated, and Machine %s of Cluster %s, which no pool replaces, has it: kubectl -n %s delete machine.%s/%s",
				owner.Name, h.Spec.Claim.ClusterName, h.Namespace, clusterv1.GroupVersion.Group, owner.Name)
		}
	}
	return fmt.Errorf("it is evacuated, and HostMachine %s of Cluster %s, which nobody replaces, has it", machine.Name, h.Spec.Claim.ClusterName)
}

func hostRebootCommand(p *Program) *cobra.Command {
	f := &requestFlags{managementFlags: managementFlags{program: p}}
	return f.command("reboot HOST...", "Reboot hosts that machines have",
		`Reboot hosts of machines once each (spec.reboots of their HostMachines), one after the other: the
next one when the former runs again, none after one that does not. Pods are not drained before: they
start again with their node. An upgrade that failed on a host is tried again with the reboot. While
a reboot is under way, none is added.

It takes the verb get on hosts, and get and patch on hostmachines.`,
		"  slipway host reboot rack1-a -n prod", func() hostRequest {
			var wanted int32
			return hostRequest{
				give: func(ctx context.Context, s *session, h *infrav1.Host) (err error) {
					wanted, err = raiseReboots(ctx, s, h)
					return err
				},
				done: func(h *infrav1.Host) (bool, error) {
					if h.Spec.Desired == nil || ptr.Deref(h.Spec.Desired.Reboots, 0) < wanted {
						return false, nil
					}
					state := hosts.StateOf(h)
					if state.Phase == infrav1.HostPhaseFailed {
						return false, errors.New(state.Message)
					}
					return state.Phase == infrav1.HostPhaseRunning, nil
				},
				waits:    "the agent reboots the host",
				oneByOne: true,
			}
		})
}

// raiseReboots requests one reboot, unless one is requested and did not begin, and returns how many there
// shall have been.
func raiseReboots(ctx context.Context, s *session, h *infrav1.Host) (int32, error) {
	machine, err := machineOf(ctx, s, h)
	if err != nil {
		return 0, err
	}
	if machine == nil || h.Spec.Desired == nil || !hosts.Bootstrapped(h) {
		return 0, fmt.Errorf("its agent reboots it for a machine that runs on it, and it is %s: reboot it yourself", hosts.StateOf(h).Phase)
	}
	n := ptr.Deref(machine.Spec.Reboots, 0)
	if ptr.Deref(h.Spec.Desired.Reboots, 0) < n || hosts.StateOf(h).Phase == infrav1.HostPhaseRebooting {
		return n, nil
	}
	before := machine.DeepCopy()
	machine.Spec.Reboots = ptr.To(n + 1)
	return n + 1, s.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
