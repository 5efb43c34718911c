package placement

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// RequestFor returns what a machine requires of a host, with the requirements of its owner and its
// cluster; either may be nil. The version is the machine's own, if it has one.
func RequestFor(ctx context.Context, c client.Reader, m *infrav1.HostMachine, owner *Owner, cluster *clusterv1.Cluster) (Request, error) {
	label, err := failureDomainLabel(ctx, c, cluster)
	if err != nil {
		return Request{}, err
	}
	request := Request{
		Version:            m.Spec.Version,
		FailureDomainLabel: label,
		Spread:             m.Spec.Spread,
		HostName:           m.Spec.HostName,
		ClusterName:        m.Labels[clusterv1.ClusterNameLabel],
		Placement:          m.Spec.Placement,
	}
	if owner != nil {
		request.Version = cmp.Or(m.Spec.Version, owner.Version)
		request.FailureDomains, request.MachinePool = owner.FailureDomains, owner.MachinePool
	}
	request.Release, err = ReleaseOf(ctx, c, request.Version)
	return request, err
}

// RequestForMember returns what a machine that a pool would add now requires of a host. It
// omits the failure domain that the pool would choose for it.
func RequestForMember(ctx context.Context, c client.Reader, pool *infrav1.HostMachinePool, machinePool *clusterv1.MachinePool, cluster *clusterv1.Cluster) (Request, error) {
	label, err := failureDomainLabel(ctx, c, cluster)
	if err != nil {
		return Request{}, err
	}
	release, err := ReleaseOf(ctx, c, machinePool.Spec.Template.Spec.Version)
	if err != nil {
		return Request{}, err
	}
	return Request{
		Version:            machinePool.Spec.Template.Spec.Version,
		Release:            release,
		FailureDomains:     machinePool.Spec.FailureDomains,
		FailureDomainLabel: label,
		ClusterName:        machinePool.Spec.ClusterName,
		MachinePool:        machinePool.Name,
		Placement:          pool.Spec.Placement,
	}, nil
}

func failureDomainLabel(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (string, error) {
	hostCluster, err := HostClusterOf(ctx, c, cluster)
	if err != nil || hostCluster == nil {
		return "", err
	}
	return hostCluster.Spec.FailureDomainLabel, nil
}

// HostClusterOf is nil when there is no Cluster, or when it has infrastructure of another
// provider.
func HostClusterOf(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (*infrav1.HostCluster, error) {
	if cluster == nil {
		return nil, nil
	}
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "HostCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	hostCluster := &infrav1.HostCluster{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, hostCluster); err != nil {
		return nil, fmt.Errorf("get HostCluster %s: %w", ref.Name, err)
	}
	return hostCluster, nil
}

// ReleaseOf is the KubernetesRelease of a version; nil when there is none. From a cache it
// is the cache's own object: it must not be changed.
func ReleaseOf(ctx context.Context, c client.Reader, version string) (*infrav1.KubernetesReleaseSpec, error) {
	if version == "" {
		return nil, nil
	}
	release := &infrav1.KubernetesRelease{}
	if err := c.Get(ctx, client.ObjectKey{Name: version}, release); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get KubernetesRelease %s: %w", version, err)
	}
	return &release.Spec, nil
}
