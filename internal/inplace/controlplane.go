package inplace

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// controlPlane says what keeps a Machine of a control plane from being updated in place:
// for good, or only for now. One at a time is KubeadmControlPlane's to see to, and so is the
// health of the control plane; two managers, or somebody who requests upgrades by hand, are
// not.
func (h *Handler) controlPlane(ctx context.Context, c client.Reader, machine *clusterv1.Machine) (no cannot, wait string, _ error) {
	machines := &clusterv1.MachineList{}
	err := c.List(ctx, machines, client.InNamespace(machine.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return nil, "", fmt.Errorf("list the Machines of the control plane: %w", err)
	}
	count := 0
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.DeletionTimestamp.IsZero() {
			count++
		}
		if wait != "" {
			continue
		}
		if wait, err = h.disturbs(ctx, c, m, m.Name == machine.Name); err != nil {
			return nil, "", err
		}
	}
	if count < host.FewestControlPlanes {
		no = append(no, fmt.Sprintf("its control plane has %d Machines, and with fewer than %d none may be away", count, host.FewestControlPlanes))
	}
	return no, wait, nil
}

// disturbs says why no other Machine of the control plane than m may be away now, or,
// of the one itself, why its host does not begin.
func (h *Handler) disturbs(ctx context.Context, c client.Reader, m *clusterv1.Machine, itself bool) (string, error) {
	_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	switch {
	case !m.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Machine %s is being deleted", m.Name), nil
	case updating && !itself:
		return fmt.Sprintf("Machine %s is being updated in place", m.Name), nil
	case !m.Status.NodeRef.IsDefined():
		return fmt.Sprintf("Machine %s has no Node yet", m.Name), nil
	case m.Spec.InfrastructureRef.APIGroup != infrav1.GroupVersion.Group:
		return fmt.Sprintf("the infrastructure of Machine %s is a %s, which this provider does not manage", m.Name, m.Spec.InfrastructureRef.Kind), nil
	}
	_, at, err := h.hostOf(ctx, c, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name})
	if err != nil {
		return "", err
	}
	if at == nil {
		return fmt.Sprintf("Machine %s has no host", m.Name), nil
	}
	switch state := host.StateOf(at); {
	case !host.Connected(at):
		return fmt.Sprintf("the agent of Host %s is not connected", at.Name), nil
	case state.Phase != infrav1.HostPhaseRunning && !itself:
		return fmt.Sprintf("Host %s of Machine %s is %s. %s", at.Name, m.Name, state.Phase, state.Message), nil
	case !host.AgentCurrent(at, h.Version):
		return fmt.Sprintf("the agent of Host %s is %s, and upgrades no control plane before it is of the manager's minor version", at.Name, at.Status.Inventory.AgentVersion), nil
	}
	return "", nil
}

// patched says whether kubeadm made the manifests of a control plane with patches. Where
// they are on the host does not outlive a reboot.
func patched(bootstrap []byte) bool {
	config, err := readObject(bootstrap, ofMachine)
	if err != nil {
		// What cannot be read is in the way already.
		return false
	}
	for _, of := range []string{"initConfiguration", "joinConfiguration"} {
		if c, ok := config.spec[of].(map[string]any); ok && c["patches"] != nil {
			return true
		}
	}
	return false
}
