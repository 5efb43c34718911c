package view

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// Cluster is one workload cluster, from the Cluster down to the Nodes.
type Cluster struct {
	status.Cluster
	// Version of Kubernetes that its topology asks for; empty without one.
	Version    string
	Endpoint   string
	Conditions Conditions
	// Troubles are what doctor finds of it and its machines.
	Troubles, Notes []Trouble
	// Groups are the control plane, the pools, and machines of neither.
	Groups []Group
	// Rollouts are its pools of Slipway, with what they roll out.
	Rollouts []PoolLine
	// Rollout is that of its machines, while there is one.
	Rollout *Rollout
	Pager   Pager
}

// Group is machines that are looked after together.
type Group struct {
	// Kind is "Control plane", MachinePool or MachineDeployment; empty for machines that
	// nobody looks after.
	Kind, Name string
	status.Replicas
	Machines []Member
}

// Member is a Machine with the host and the node that it has.
type Member struct {
	// Name of the Machine, or of the HostMachine while there is no Machine.
	Namespace, Name, Version string
	State                    status.State
	// HostMachine that asks for a host, if Slipway provides it.
	HostMachine string
	// Host that it has; nil while it waits. Of one that the user may not see there is
	// only a name.
	Host *status.Host
	// Node, as the Machine tells; empty while there is none.
	Node string
	// Waiting says what it waits for.
	Waiting string
	// Outdated says that it is of another version or revision than it is to be.
	Outdated bool

	times times
	order int
	group string
}

// ClusterOf shows a cluster; told is what the status tells of it.
func ClusterOf(c *clusterv1.Cluster, told status.Cluster, o *doctor.Snapshot, states *status.States, page int) Cluster {
	v := Cluster{Cluster: told, Conditions: ConditionsOf(c.Status.Conditions, told.State), Rollouts: PoolsOf(c, o.HostMachinePools)}
	v.Troubles, v.Notes = TroublesOf(states.OfCluster(c), o)
	v.Waiting = untold(v.Waiting, v.Troubles)
	if c.Spec.Topology.IsDefined() {
		v.Version = c.Spec.Topology.Version
	}
	if c.Spec.ControlPlaneEndpoint.IsValid() {
		v.Endpoint = c.Spec.ControlPlaneEndpoint.String()
	}
	v.Groups = []Group{{Kind: "Control plane", Name: c.Spec.ControlPlaneRef.Name, Replicas: told.ControlPlane}}
	for _, p := range told.Pools {
		v.Groups = append(v.Groups, Group{Kind: p.Kind, Name: p.Name, Replicas: p.Replicas})
	}
	members := membersOf(c, o, states)
	v.Rollout = rolloutOf(members, c.Status.Conditions, o.Now)
	shown, pager := paged(members, page)
	v.Pager = pager
	for _, m := range shown {
		i := slices.IndexFunc(v.Groups, func(g Group) bool { return g.Kind == groupKinds[m.order] && (m.order == 0 || g.Name == m.group) })
		if i < 0 {
			i, v.Groups = len(v.Groups), append(v.Groups, Group{Kind: groupKinds[m.order], Name: m.group})
		}
		v.Groups[i].Machines = append(v.Groups[i].Machines, m)
	}
	return v
}

// untold are the reasons to wait, such as "machine: reason", that no trouble tells of already.
func untold(waiting []string, troubles []Trouble) []string {
	return slices.DeleteFunc(slices.Clone(waiting), func(why string) bool {
		_, reason, of := strings.Cut(why, ": ")
		return of && slices.ContainsFunc(troubles, func(t Trouble) bool { return strings.HasSuffix(t.Cause, reason) })
	})
}

// groupKinds are the kinds of groups by the order of their members.
var groupKinds = []string{"Control plane", "MachinePool", "MachineDeployment", ""}

// membersOf are the machines of a cluster, by group and name.
func membersOf(c *clusterv1.Cluster, o *doctor.Snapshot, states *status.States) []Member {
	hosts, wanting := hostsIn(o, c.Namespace), map[string]*infrav1.HostMachine{}
	for i := range o.HostMachines {
		if m := &o.HostMachines[i]; m.Namespace == c.Namespace && m.Labels[clusterv1.ClusterNameLabel] == c.Name {
			wanting[m.Name] = m
		}
	}
	var members []Member
	for i := range o.Machines {
		m := &o.Machines[i]
		if m.Namespace != c.Namespace || m.Spec.ClusterName != c.Name {
			continue
		}
		member := memberOf(m)
		if ref := m.Spec.InfrastructureRef; IsOurs(ref, "HostMachine") {
			member.takes(wanting[ref.Name], m, hosts, states)
			delete(wanting, ref.Name)
		}
		members = append(members, member)
	}
	for _, m := range wanting {
		member := Member{Namespace: m.Namespace, Name: m.Name, Version: m.Spec.Version}
		member.order, member.group = groupOf(m.Labels)
		member.takes(m, nil, hosts, states)
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.order, b.order), status.NaturalCompare(a.group, b.group), status.NaturalCompare(a.Name, b.Name))
	})
	return members
}

// hostsIn are the hosts of a namespace by their names.
func hostsIn(o *doctor.Snapshot, namespace string) map[string]*infrav1.Host {
	hosts := map[string]*infrav1.Host{}
	for i := range o.Hosts {
		if o.Hosts[i].Namespace == namespace {
			hosts[o.Hosts[i].Name] = &o.Hosts[i]
		}
	}
	return hosts
}

func keyIn(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func memberOf(m *clusterv1.Machine) Member {
	member := Member{Namespace: m.Namespace, Name: m.Name, State: status.StateOf(nil, nil, m, nil), Version: m.Spec.Version, Node: m.Status.NodeRef.Name}
	member.order, member.group = groupOf(m.Labels)
	member.Outdated = meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	if m.Status.NodeInfo != nil {
		member.Version = cmp.Or(m.Status.NodeInfo.KubeletVersion, member.Version)
	}
	return member
}

func groupOf(labels map[string]string) (order int, name string) {
	if _, ok := labels[clusterv1.MachineControlPlaneLabel]; ok {
		return 0, ""
	}
	if pool := labels[clusterv1.MachinePoolNameLabel]; pool != "" {
		return 1, cmp.Or(labels[clusterv1.ClusterTopologyMachinePoolNameLabel], pool)
	}
	if deployment := labels[clusterv1.MachineDeploymentNameLabel]; deployment != "" {
		return 2, cmp.Or(labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], deployment)
	}
	return 3, ""
}

// takes adds what Slipway has for the machine.
func (m *Member) takes(from *infrav1.HostMachine, machine *clusterv1.Machine, hosts map[string]*infrav1.Host, states *status.States) {
	if from == nil {
		return
	}
	m.HostMachine, m.State, m.Waiting = from.Name, states.Machine(from), status.MachineWaits(from, machine)
	name := from.Status.HostRef.Name
	m.times = timesOf(from, machine, hosts[name])
	if name == "" {
		return
	}
	host := status.Host{Namespace: from.Namespace, Name: name}
	if h := hosts[name]; h != nil {
		host = status.HostOf(h, states)
	}
	m.Host = &host
}

// IsOurs reports whether a reference is to a kind of this provider: another provider may have
// an object of the same name.
func IsOurs(ref clusterv1.ContractVersionedObjectReference, kind string) bool {
	return ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == kind
}
