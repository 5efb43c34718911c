package status

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

// NodeLister lists the Nodes of a workload cluster.
type NodeLister func(ctx context.Context, cluster client.ObjectKey) ([]corev1.Node, error)

// nodesTimeout bounds the look into one workload cluster, so that one that is
// down does not hold up the others.
const nodesTimeout = 3 * time.Second

// Collect reads clusters and hosts of the management cluster behind c. It leaves
// Status.Plane to the caller, who knows which one it is. Of kinds that may not be
// listed the error has them all. Without a NodeLister it does not look into the clusters.
func Collect(ctx context.Context, c client.Reader, scope Scope, nodes NodeLister) (Status, error) {
	needed := []snapshot.Kind{snapshot.Clusters, snapshot.MachinePools, snapshot.MachineDeployments, snapshot.Machines,
		snapshot.HostMachines, snapshot.HostMachinePools, snapshot.Hosts, snapshot.LifecycleRuns}
	o, err := doctor.ReadFleet(ctx, c, scope, time.Now(), Members, needed)
	if err != nil {
		return Status{}, err
	}
	s := Of(o, Judge(o))
	if nodes != nil {
		addNodes(ctx, &s, nodes)
	}
	return s, nil
}

// Members are the kinds that Of needs besides those of doctor.ReadFleet.
var Members = []snapshot.Kind{snapshot.MachinePools, snapshot.MachineDeployments}

// Of is the status of a snapshot, without the plane and Nodes.
func Of(o *doctor.Snapshot, states *States) Status {
	s, onHosts := Status{Clusters: []Cluster{}}, o.MachinesOnHosts()
	for i := range o.Clusters {
		of := &o.Clusters[i]
		if !o.Scope.Shows(of) {
			continue
		}
		cluster := clusterOf(of, o.Machines)
		cluster.State = states.Cluster(of)
		cluster.Pools = poolsOf(cluster, o.MachinePools, o.MachineDeployments)
		cluster.Waiting = Waits(of, &o.Snapshot, onHosts, o.Now)
		s.Clusters = append(s.Clusters, cluster)
	}
	s.Hosts = HostsOf(o, states)
	slices.SortFunc(s.Clusters, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// addNodes looks into all workload clusters at once. A cluster that can't be
// reached has no nodes to show, which is not an error of the status.
func addNodes(ctx context.Context, s *Status, nodes NodeLister) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i := range s.Clusters {
		cluster := &s.Clusters[i]
		wg.Go(func() {
			list, err := nodes(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name})
			if apierrors.IsForbidden(err) {
				cluster.NodesUnknown = err.Error()
			}
			if err != nil {
				return
			}
			for j := range list {
				cluster.Nodes = append(cluster.Nodes, NodeOf(&list[j]))
			}
			slices.SortFunc(cluster.Nodes, func(a, b Node) int { return NaturalCompare(a.Name, b.Name) })
		})
	}
	wg.Wait()
}

func clusterOf(c *clusterv1.Cluster, machines []clusterv1.Machine) Cluster {
	cluster := Cluster{Namespace: c.Namespace, Name: c.Name, Phase: c.Status.Phase, Pools: []Pool{}, Nodes: []Node{}}
	if c.Status.ControlPlane != nil {
		cluster.ControlPlane.Desired = ptr.Deref(c.Status.ControlPlane.DesiredReplicas, 0)
	}
	if cluster.ControlPlane.Desired == 0 && c.Spec.Topology.IsDefined() {
		cluster.ControlPlane.Desired = ptr.Deref(c.Spec.Topology.ControlPlane.Replicas, 0)
	}
	for i := range machines {
		m := &machines[i]
		_, isControlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		if m.Namespace == c.Namespace && m.Spec.ClusterName == c.Name && isControlPlane && machineReady(m) {
			cluster.ControlPlane.Ready++
		}
	}
	return cluster
}

// machineReady is stricter than the Machine's phase: its Node must be Ready.
func machineReady(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition)
}

func poolsOf(cluster Cluster, pools []clusterv1.MachinePool, deployments []clusterv1.MachineDeployment) []Pool {
	out := []Pool{}
	for i := range pools {
		p := &pools[i]
		if p.Namespace == cluster.Namespace && p.Spec.ClusterName == cluster.Name {
			out = append(out, machinePool(p))
		}
	}
	for i := range deployments {
		d := &deployments[i]
		if d.Namespace == cluster.Namespace && d.Spec.ClusterName == cluster.Name {
			out = append(out, machineDeployment(d))
		}
	}
	return out
}

func machinePool(p *clusterv1.MachinePool) Pool {
	return Pool{Name: nameInTopology(p), Kind: "MachinePool", Replicas: Replicas{Desired: ptr.Deref(p.Spec.Replicas, 0), Ready: ptr.Deref(p.Status.ReadyReplicas, 0)}}
}

func machineDeployment(d *clusterv1.MachineDeployment) Pool {
	return Pool{Name: nameInTopology(d), Kind: "MachineDeployment", Replicas: Replicas{Desired: ptr.Deref(d.Spec.Replicas, 0), Ready: ptr.Deref(d.Status.ReadyReplicas, 0)}}
}

// nameInTopology is the name of a pool or deployment in the Cluster's topology, or its own.
func nameInTopology(o client.Object) string {
	return cmp.Or(o.GetLabels()[clusterv1.ClusterTopologyMachinePoolNameLabel], o.GetLabels()[clusterv1.ClusterTopologyMachineDeploymentNameLabel], o.GetName())
}

// NodeOf is the part of a Node that the status shows.
func NodeOf(n *corev1.Node) Node {
	node := Node{Name: n.Name, ProviderID: n.Spec.ProviderID, Version: n.Status.NodeInfo.KubeletVersion, BootID: n.Status.NodeInfo.BootID}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			node.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	return node
}

// Hosts reads the hosts in scope, and what may be read of what their states follow from.
func Hosts(ctx context.Context, c client.Reader, scope Scope) ([]Host, error) {
	s, err := doctor.ReadFleet(ctx, c, scope, time.Now(), nil, []snapshot.Kind{snapshot.Hosts})
	if err != nil {
		return nil, err
	}
	return HostsOf(s, Judge(s)), nil
}

// HostsOf returns the hosts in scope as the status shows them, sorted.
func HostsOf(s *doctor.Snapshot, states *States) []Host {
	hosts := []Host{}
	for i := range s.Hosts {
		if s.Scope.Shows(&s.Hosts[i]) {
			hosts = append(hosts, HostOf(&s.Hosts[i], states))
		}
	}
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), NaturalCompare(a.Name, b.Name))
	})
	return hosts
}

// HostOf is the part of a Host that the status shows.
func HostOf(h *infrav1.Host, states *States) Host {
	found := h.Status.Inventory
	host := Host{Namespace: h.Namespace, Name: h.Name, Phase: string(h.Status.Phase), State: states.Host(h), Addresses: []string{},
		Architecture: found.Architecture, Cgroups: string(found.Cgroups), MachineID: found.MachineID, Machine: strings.TrimSpace(found.Hardware.System.Vendor + " " + found.Hardware.System.Product),
		FailureDomain: h.Spec.FailureDomain, Created: h.CreationTimestamp.UTC(), Approval: string(h.Spec.Approval),
		Connected: meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AgentConnectedCondition)}
	if required := h.Status.RebootRequired; required != nil {
		host.RebootRequiredSince = at(required.Since)
	}
	if h.Spec.Claim != nil {
		host.ClaimedBy = h.Spec.Claim.ClusterName + "/" + h.Spec.Claim.MachineName
	}
	for _, version := range found.KubernetesVersions {
		host.Versions = append(host.Versions, Version{Version: version, Origin: OriginOf(h, version)})
	}
	for _, a := range h.Status.Addresses {
		if a.Type == clusterv1.MachineInternalIP {
			host.Addresses = append(host.Addresses, a.Address)
		}
	}
	return host
}

// OriginOf says where a version of a host comes from; Unknown for a bundle whose agent does not tell.
func OriginOf(h *infrav1.Host, version string) string {
	for _, r := range h.Status.Software.Releases {
		if r.Version == version {
			return cmp.Or(string(r.Origin), "Unknown")
		}
	}
	return OriginPackages
}
