package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// Live changes an object as it is now: what others change meanwhile is a conflict, after which it is
// read again. It returns the error of change.
func Live(ctx context.Context, c client.Reader, key client.ObjectKey, o client.Object, change func() error) error {
	var last error
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if last = c.Get(ctx, key, o); last == nil {
			last = change()
		}
		return last
	})
	return cmp.Or(err, last) // the former is nil for a change that timed out
}

func patch(ctx context.Context, c client.Writer, o, before client.Object) error {
	return c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// keepBack patches a Host, and records why.
func keepBack(ctx context.Context, c client.Writer, h *infrav1.Host, reason string, set func(*infrav1.HostSpec)) error {
	before := h.DeepCopy()
	set(&h.Spec)
	if reason != "" {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.MaintenanceReasonAnnotation, reason)
	}
	return patch(ctx, c, h, before)
}

// Cordon keeps a host from being claimed; a machine that has it keeps it. It takes the verbs get and
// patch on hosts, like Uncordon.
func Cordon(ctx context.Context, c client.Writer, h *infrav1.Host, reason string) error {
	return keepBack(ctx, c, h, reason, func(spec *infrav1.HostSpec) { spec.Unschedulable = ptr.To(true) })
}

// Uncordon lets a host be claimed again, after Cordon and Evacuate.
func Uncordon(ctx context.Context, c client.Writer, h *infrav1.Host) error {
	return keepBack(ctx, c, h, "", func(spec *infrav1.HostSpec) {
		spec.Unschedulable, spec.Evacuate = nil, nil
		delete(h.Annotations, infrav1.MaintenanceReasonAnnotation)
	})
}

// Evacuate empties a host. It is an error, with the request recorded, when nobody replaces the machine
// that has it. It takes the verbs get and patch on hosts, and get on hostmachines.
func Evacuate(ctx context.Context, c client.Client, h *infrav1.Host, reason string) error {
	if err := keepBack(ctx, c, h, reason, func(spec *infrav1.HostSpec) { spec.Evacuate = ptr.To(true) }); err != nil {
		return err
	}
	if h.Spec.Claim == nil || hosts.Releasing(h) {
		return nil
	}
	machine, err := MachineOf(ctx, c, h)
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

// Reboot requests one reboot of the host of a machine, unless such a one is requested and did not end, and
// returns how many there shall have been. It takes the verb get on hosts, and get and patch on
// hostmachines.
func Reboot(ctx context.Context, c client.Client, h *infrav1.Host, policy infrav1.RebootPolicy) (int32, error) {
	machine, err := MachineOf(ctx, c, h)
	if err != nil {
		return 0, err
	}
	if machine == nil || h.Spec.Desired == nil || !hosts.Bootstrapped(h) {
		return 0, fmt.Errorf("its agent reboots it for a machine that runs on it, and it is %s: reboot it yourself", hosts.StateOf(h).Phase)
	}
	n := ptr.Deref(machine.Spec.Reboots, 0)
	overtakes := policy != infrav1.RebootDrain && machine.Spec.RebootPolicy == infrav1.RebootDrain
	if !overtakes && (ptr.Deref(h.Spec.Desired.Reboots, 0) < n || hosts.StateOf(h).Phase == infrav1.HostPhaseRebooting) {
		return n, nil
	}
	before := machine.DeepCopy()
	machine.Spec.Reboots, machine.Spec.RebootPolicy = ptr.To(n+1), policy
	return n + 1, patch(ctx, c, machine, before)
}

// ClearQuarantine confirms that a host is clean, for the claim that it had last. It takes the verbs get
// and patch on hosts.
func ClearQuarantine(ctx context.Context, c client.Writer, h *infrav1.Host) error {
	confirmed := strconv.FormatInt(h.Spec.ClaimGeneration, 10)
	if answer, why := hosts.EvaluateConfirmation(h, confirmed); answer == hosts.ConfirmationRefused {
		return errors.New(why)
	}
	before := h.DeepCopy()
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, infrav1.ClearQuarantineAnnotation, confirmed)
	return patch(ctx, c, h, before)
}

// MachineOf reads the HostMachine of a claim; nil when it is gone.
func MachineOf(ctx context.Context, c client.Reader, h *infrav1.Host) (*infrav1.HostMachine, error) {
	if h.Spec.Claim == nil {
		return nil, nil
	}
	machine := &infrav1.HostMachine{}
	err := c.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}, machine)
	if apierrors.IsNotFound(err) || err == nil && machine.Spec.ClaimID != h.Spec.Claim.ClaimID {
		return nil, nil
	}
	return machine, err
}

// Replace deletes the Machine that has a host; its owner makes another one. A Machine without an owner
// that replaces it is refused. It takes the verbs get on hosts and hostmachines, and get and delete on
// machines.
func Replace(ctx context.Context, c client.Client, h *infrav1.Host) error {
	of, err := MachineOf(ctx, c, h)
	if err != nil {
		return err
	}
	if of == nil {
		return errors.New("no Machine has it")
	}
	machine, err := util.GetOwnerMachine(ctx, c, of.ObjectMeta)
	switch {
	case err != nil:
		return err
	case machine == nil:
		return errors.New("no Machine has it")
	case metav1.GetControllerOf(machine) == nil:
		return fmt.Errorf("no owner would replace Machine %s", machine.Name)
	}
	return c.Delete(ctx, machine, client.Preconditions{UID: &machine.UID})
}
