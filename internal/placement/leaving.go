package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// makers are the kinds that own Machines, besides the control planes of other providers in the group
// of Cluster API. All others cannot be read.
var makers = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("MachineSet"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"),
}

// Leaving says which of the owners and the Cluster of a machine is being deleted; empty while
// none is. Either may be nil.
func Leaving(owner *Owner, cluster *clusterv1.Cluster) string {
	if cluster != nil && !cluster.DeletionTimestamp.IsZero() {
		return deleting("Cluster", cluster)
	}
	if owner != nil {
		return owner.Leaving
	}
	return ""
}

// PoolLeaving says which of a pool, its MachinePool and its Cluster is being deleted; empty
// while none is. The last two may be nil.
func PoolLeaving(pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool, cluster *clusterv1.Cluster) string {
	switch {
	case cluster != nil && !cluster.DeletionTimestamp.IsZero():
		return deleting("Cluster", cluster)
	case machinePool != nil && !machinePool.DeletionTimestamp.IsZero():
		return deleting("MachinePool", machinePool)
	}
	return deleting("HostMachinePool", pool)
}

// MachineLeaves reads live whether the HostMachine, one of its owners or its Cluster
// is being deleted or gone, and says which; empty when none is.
func MachineLeaves(ctx context.Context, live client.Reader, m *infrav1.HostMachine, cluster string) (string, error) {
	if why, err := leavesCluster(ctx, live, m.Namespace, cluster); err != nil || why != "" {
		return why, err
	}
	now := &infrav1.HostMachine{}
	if why, err := leaves(ctx, live, "HostMachine", client.ObjectKeyFromObject(m), now); err != nil || why != "" {
		return why, err
	}
	owner, err := OwnerOf(ctx, live, now)
	if err != nil {
		return "", err
	}
	if owner == nil {
		return fmt.Sprintf("The owner of HostMachine %s is gone", m.Name), nil
	}
	if owner.Leaving != "" {
		return owner.Leaving, nil
	}
	return MakerLeaves(ctx, live, m.Namespace, owner)
}

// PoolLeaves reads live whether a HostMachinePool, its MachinePool or its Cluster is
// being deleted or gone, and says which; empty when none is.
func PoolLeaves(ctx context.Context, live client.Reader, pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool) (string, error) {
	if why, err := leavesCluster(ctx, live, pool.Namespace, machinePool.Spec.ClusterName); err != nil || why != "" {
		return why, err
	}
	if why, err := leaves(ctx, live, "MachinePool", client.ObjectKeyFromObject(machinePool), &clusterv1.MachinePool{}); err != nil || why != "" {
		return why, err
	}
	return leaves(ctx, live, "HostMachinePool", client.ObjectKeyFromObject(pool), &infrav1.HostMachinePool{})
}

func leavesCluster(ctx context.Context, live client.Reader, namespace, name string) (string, error) {
	return leaves(ctx, live, "Cluster", client.ObjectKey{Namespace: namespace, Name: name}, &clusterv1.Cluster{})
}

// leaves reads an object into o.
func leaves(ctx context.Context, live client.Reader, kind string, key client.ObjectKey, o client.Object) (string, error) {
	err := live.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %s is gone", kind, key.Name), nil
	case err != nil:
		return "", fmt.Errorf("get %s %s: %w", kind, key.Name, err)
	}
	return deleting(kind, o), nil
}

// deleting is empty for an object that is not being deleted.
func deleting(kind string, o client.Object) string {
	if o.GetDeletionTimestamp().IsZero() {
		return ""
	}
	return fmt.Sprintf("%s %s is being deleted", kind, o.GetName())
}

// MakerLeaves reads live whether the MachineSet, the MachineDeployment or the control plane
// that made a machine is being deleted, and says which; empty when none is.
// One that is gone says nothing: its Machines may have been kept on purpose.
func MakerLeaves(ctx context.Context, live client.Reader, namespace string, owner *Owner) (string, error) {
	for ref := owner.maker; ref != nil; {
		kind, known := makerOf(ref)
		if !known {
			break
		}
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(kind)
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, o)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
		}
		if why := deleting(ref.Kind, o); why != "" {
			return why, nil
		}
		ref = metav1.GetControllerOf(o)
	}
	return "", nil
}

func makerOf(ref *metav1.OwnerReference) (schema.GroupVersionKind, bool) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, false
	}
	for _, kind := range makers {
		if version.Group == kind.Group && ref.Kind == kind.Kind {
			return kind, true
		}
	}
	return version.WithKind(ref.Kind), version.Group == controlplanev1.GroupVersion.Group
}
