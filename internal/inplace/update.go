package inplace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// How soon Cluster API calls again: while the host works, when a write met another, and when
// somebody has to do something.
const (
	retryUpgrading = 10 * time.Second
	retryConflict  = time.Second
	retryPerson    = 30 * time.Second
)

// updateMachine requests the version of a Machine from its host, and another call of the hook
// until the host runs it. What the request says only names the Machine:
// whoever reaches the port must not request what Cluster API did not.
func (h *Handler) updateMachine(ctx context.Context, r *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
	machine, err := h.due(ctx, &r.Desired.Machine)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
	m, at, err := h.hostOf(ctx, h.APIReader, key)
	switch {
	case err != nil:
		return nil, err
	case m == nil || !ownedBy(m, machine):
		return nil, fmt.Errorf("HostMachine %s is gone, or of another Machine than %s", key.Name, machine.Name)
	case at == nil:
		return nil, extension.RetryAfter(retryPerson, fmt.Sprintf("HostMachine %s has no host any more. Delete the Machine to replace it", m.Name))
	}
	if machine.Spec.Version == "" || m.Spec.Version == "" && host.RunningVersion(at) == machine.Spec.Version {
		return nil, nil // only the requirements on hosts have changed
	}
	if err := h.stays(ctx, machine, m); err != nil {
		return nil, err
	}
	if err := h.alone(ctx, machine, m); err != nil {
		return nil, err
	}
	if err := h.requestUpgrade(ctx, m, machine.Spec.Version); err != nil {
		return nil, err
	}
	if host.RunningVersion(at) == machine.Spec.Version {
		return nil, nil
	}
	release, err := placement.ReleaseOf(ctx, h.Client, machine.Spec.Version)
	if err != nil {
		return nil, err
	}
	return nil, waiting(at, machine.Spec.Version, release)
}

// due returns the Machine as the API server has it, if Cluster API is updating it in place,
// to what the request says.
func (h *Handler) due(ctx context.Context, requested *clusterv1.Machine) (*clusterv1.Machine, error) {
	machine := &clusterv1.Machine{}
	if err := h.APIReader.Get(ctx, client.ObjectKeyFromObject(requested), machine); err != nil {
		return nil, fmt.Errorf("read Machine %s: %w", requested.Name, err)
	}
	_, updating := machine.Annotations[clusterv1.UpdateInProgressAnnotation]
	pending := strings.Split(machine.Annotations[runtimev1.PendingHooksAnnotation], ",")
	ref := machine.Spec.InfrastructureRef
	switch {
	case !machine.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("the Machine %s is being deleted", machine.Name)
	case !updating || !slices.Contains(pending, capi.UpdateMachine.Definition().Name.Hook):
		return nil, fmt.Errorf("the Machine %s is not being updated in place", machine.Name)
	case machine.Spec.Version != requested.Spec.Version:
		return nil, fmt.Errorf("the request is to bring Machine %s to version %q, its own is %q", machine.Name, requested.Spec.Version, machine.Spec.Version)
	case ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "HostMachine":
		return nil, fmt.Errorf("the infrastructure of Machine %s is a %s of %s, which this provider does not manage", machine.Name, ref.Kind, ref.APIGroup)
	}
	return machine, nil
}

// stays holds an update back that has not begun while the Machine, what made it or its Cluster
// is being deleted.
func (h *Handler) stays(ctx context.Context, machine *clusterv1.Machine, m *infrav1.HostMachine) error {
	if m.Spec.Version == machine.Spec.Version {
		return nil
	}
	why, err := placement.MachineLeaves(ctx, h.APIReader, m, machine.Spec.ClusterName)
	if err != nil || why == "" {
		return err
	}
	return extension.RetryAfter(retryPerson, fmt.Sprintf("Machine %s is not updated: %s", machine.Name, why))
}

// alone waits, before the upgrade is requested from the host of a control plane, until all other
// hosts of that control plane are available.
func (h *Handler) alone(ctx context.Context, machine *clusterv1.Machine, m *infrav1.HostMachine) error {
	if !util.IsControlPlaneMachine(machine) || m.Spec.Version == machine.Spec.Version {
		return nil
	}
	no, wait, err := h.controlPlane(ctx, h.APIReader, machine)
	switch {
	case err != nil:
		return err
	case len(no) > 0:
		return extension.RetryAfter(retryPerson, fmt.Sprintf("Machine %s waits: %s. Add Machines, or delete this one to replace it", machine.Name, no))
	case wait != "":
		return extension.RetryAfter(retryUpgrading, fmt.Sprintf("Machine %s waits: %s", machine.Name, wait))
	}
	return nil
}

func ownedBy(m *infrav1.HostMachine, machine *clusterv1.Machine) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == machine.UID })
}

// requestUpgrade writes the version into the HostMachine, from where the provider requests
// it of the host, unless it is there.
func (h *Handler) requestUpgrade(ctx context.Context, m *infrav1.HostMachine, version string) error {
	if m.Spec.Version == version {
		return nil
	}
	before := m.DeepCopy()
	m.Spec.Version = version
	err := h.Client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return extension.RetryAfter(retryConflict, fmt.Sprintf("HostMachine %s was just changed by somebody else", m.Name))
	}
	if err != nil {
		return fmt.Errorf("write spec.version of HostMachine %s: %w", m.Name, err)
	}
	log.FromContext(ctx).Info("Requested an update in place", "HostMachine", klog.KObj(m), "version", version)
	return nil
}

// waiting says what an update waits for, and who has to do something about it.
func waiting(at *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) error {
	state := host.StateOf(at)
	switch {
	case state.Reason == infrav1.UpgradeFailedReason && at.Spec.Desired.Version == version:
		return extension.RetryAfter(retryPerson, fmt.Sprintf("Upgrade of Host %s to %s: %s. Mend the host and reboot it by raising spec.reboots of "+
			"the HostMachine, which tries again, or delete the Machine to replace it", at.Name, version, state.Message))
	case state.Reason == infrav1.HostUpgradingReason:
		return extension.RetryAfter(retryUpgrading, fmt.Sprintf("Host %s: %s", at.Name, state.Message))
	case host.OfferOf(at, version, release) == host.OfferNone:
		return extension.RetryAfter(retryPerson, host.NotOffered(at, version)+", or delete the Machine to replace it")
	}
	return extension.RetryAfter(retryUpgrading, fmt.Sprintf("Host %s is to be upgraded to %s", at.Name, version))
}
