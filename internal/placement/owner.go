package placement

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capilabels "sigs.k8s.io/cluster-api/util/labels"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Owner has the requirements of the Machine or MachinePool behind a HostMachine.
type Owner struct {
	// Description names it in messages, for example "MachinePool workers".
	Description string
	// Version of Kubernetes, for example v1.36.3; any when it is empty.
	Version string
	// FailureDomains are those allowed; all are when it is empty.
	FailureDomains []string
	// BootstrapSecret is the name of the Secret with the bootstrap data; empty while
	// there is none.
	BootstrapSecret string
	// BootstrapConfig is what the bootstrap data is made from; undefined when somebody
	// provides the data without one.
	BootstrapConfig clusterv1.ContractVersionedObjectReference
	// MachinePool is the name of the owner when it is one.
	MachinePool string
	// ControlPlane is true for a machine of a control plane.
	ControlPlane bool
	// Leaving says that the owner, or its pool, is being deleted; empty while it is not.
	Leaving string

	// maker is what made the Machine; nil when a user did, and for a member of a pool.
	maker *metav1.OwnerReference
}

// OwnerOf reads the owner of a HostMachine; nil while there is none.
func OwnerOf(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (*Owner, error) {
	if capilabels.IsMachinePoolOwned(m) {
		return poolOwner(ctx, c, m)
	}
	machine := &clusterv1.Machine{}
	if found, err := getOwner(ctx, c, m, clusterv1.GroupVersion.Group, "Machine", machine); err != nil || !found {
		return nil, err
	}
	return ownerMachine(machine), nil
}

// ownerMachine has the requirements of a Machine.
func ownerMachine(machine *clusterv1.Machine) *Owner {
	owner := &Owner{
		Description:     "Machine " + machine.Name,
		Version:         machine.Spec.Version,
		BootstrapSecret: ptr.Deref(machine.Spec.Bootstrap.DataSecretName, ""),
		BootstrapConfig: machine.Spec.Bootstrap.ConfigRef,
		ControlPlane:    util.IsControlPlaneMachine(machine),
		Leaving:         deleting("Machine", machine),
		maker:           metav1.GetControllerOf(machine),
	}
	if machine.Spec.FailureDomain != "" {
		owner.FailureDomains = []string{machine.Spec.FailureDomain}
	}
	return owner
}

// poolOwner reads version and bootstrap data from the MachinePool: the Machine of
// a pool member is made from the HostMachine, later, and has neither.
func poolOwner(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (*Owner, error) {
	pool, machinePool := &infrav1.HostMachinePool{}, &clusterv1.MachinePool{}
	if found, err := getOwner(ctx, c, m, infrav1.GroupVersion.Group, "HostMachinePool", pool); err != nil || !found {
		return nil, err
	}
	if found, err := getOwner(ctx, c, pool, clusterv1.GroupVersion.Group, "MachinePool", machinePool); err != nil || !found {
		return nil, err
	}
	leaving := PoolLeaving(pool, machinePool, nil)
	if leaving == "" {
		var err error
		if leaving, err = memberMachineLeaving(ctx, c, m); err != nil {
			return nil, err
		}
	}
	template := machinePool.Spec.Template.Spec
	return &Owner{
		Description:     "MachinePool " + machinePool.Name,
		MachinePool:     machinePool.Name,
		Version:         template.Version,
		FailureDomains:  machinePool.Spec.FailureDomains,
		BootstrapSecret: ptr.Deref(template.Bootstrap.DataSecretName, ""),
		BootstrapConfig: template.Bootstrap.ConfigRef,
		Leaving:         leaving,
	}, nil
}

// memberMachineLeaving says that the Machine that Cluster API made for a member of a pool is being
// deleted, which deletes the HostMachine once no hook holds the Machine up any more; empty while it is
// not. It has the name of its HostMachine.
func memberMachineLeaving(ctx context.Context, c client.Reader, m *infrav1.HostMachine) (string, error) {
	machine := &clusterv1.Machine{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(m), machine); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Machine %s of a pool: %w", m.Name, err)
	}
	if ref := machine.Spec.InfrastructureRef; ref.Kind != "HostMachine" || ref.Name != m.Name || ref.APIGroup != infrav1.GroupVersion.Group {
		return "", nil
	}
	return deleting("Machine", machine), nil
}

// getOwner reads the owner of a kind, whatever the version of the reference. It returns
// false when there is none, or when it is gone.
func getOwner(ctx context.Context, c client.Reader, o client.Object, group, kind string, into client.Object) (bool, error) {
	for _, ref := range o.GetOwnerReferences() {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || version.Group != group || ref.Kind != kind {
			continue
		}
		err = c.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, into)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get %s %s, which owns %s: %w", kind, ref.Name, o.GetName(), err)
		}
		return err == nil, nil
	}
	return false, nil
}
