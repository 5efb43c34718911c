package view

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// Pool is a pool of machines with its rollout.
type Pool struct {
	Namespace, Name, Cluster string
	// Version and Revision that machines are made of now.
	Version, Revision string
	// Replicas, and how many of them are ready, available, and made of these.
	Replicas, Ready, Available, Updated int32
	// State is how it is.
	State status.State
	// RollingOut is the condition while it is True: what is done, and why it waits; Rollout are
	// the machines.
	RollingOut *Condition
	Rollout    *Rollout
	Conditions Conditions
	// Members are the machines of the page, those that are rolled out to others first.
	Members []PoolMember
	Pager   Pager
}

// PoolMember is a machine of a pool.
type PoolMember struct {
	Member
	// Operation that its host was told last; nil without one.
	Operation *Operation
}

// PoolOf shows a pool; version is that of its MachinePool, empty where that is not known.
func PoolOf(p *infrav1.HostMachinePool, version string, o *doctor.Snapshot, states *status.States, page int) Pool {
	v := Pool{
		Namespace: p.Namespace, Name: p.Name, Cluster: p.Labels[clusterv1.ClusterNameLabel], Version: version, Revision: p.Status.Revision,
		Replicas: p.Status.Replicas, Ready: p.Status.ReadyReplicas, Available: ptr.Deref(p.Status.AvailableReplicas, 0), Updated: ptr.Deref(p.Status.UpdatedReplicas, 0),
		State: states.Pool(p),
	}
	v.Conditions = ConditionsOf(p.Status.Conditions, v.State)
	if i := slices.IndexFunc(v.Conditions.Unexpected, func(c Condition) bool { return c.Type == clusterv1.RollingOutCondition }); i >= 0 {
		v.RollingOut = &v.Conditions.Unexpected[i]
	}
	members := poolMembers(p, version, o, states)
	all := make([]Member, len(members))
	for i := range members {
		all[i] = members[i].Member
	}
	v.Rollout = rolloutOf(all, p.Status.Conditions, o.Now)
	v.Members, v.Pager = paged(members, page)
	return v
}

func poolMembers(p *infrav1.HostMachinePool, version string, o *doctor.Snapshot, states *status.States) []PoolMember {
	hosts, machines := hostsIn(o, p.Namespace), o.MachinesOnHosts()
	var members []PoolMember
	for i := range o.HostMachines {
		m := &o.HostMachines[i]
		if !slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "HostMachinePool" && r.UID == p.UID }) {
			continue
		}
		member := PoolMember{Member: Member{Namespace: m.Namespace, Name: m.Name, Version: m.Spec.Version}}
		member.order, member.group = groupOf(m.Labels)
		machine := machines[keyIn(m.Namespace, m.Name)]
		if machine != nil {
			member.Member = memberOf(machine)
		}
		member.takes(m, machine, hosts, states)
		member.Outdated = p.Status.Revision != "" && (m.Labels[infrav1.RevisionLabel] != p.Status.Revision || version != "" && m.Spec.Version != version)
		if host := hosts[m.Status.HostRef.Name]; host != nil {
			member.Operation = operationOf(host, o.Now)
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b PoolMember) int {
		if a.Outdated != b.Outdated {
			return one(b.Outdated) - one(a.Outdated)
		}
		return status.NaturalCompare(a.Name, b.Name)
	})
	return members
}

// PoolLine is a pool among those of a cluster.
type PoolLine struct {
	Namespace, Name   string
	Replicas, Updated int32
	// Doing is what it rolls out, and why that waits; empty at rest.
	Doing string
}

// PoolsOf lists the pools of a cluster.
func PoolsOf(c *clusterv1.Cluster, pools []infrav1.HostMachinePool) []PoolLine {
	var lines []PoolLine
	for i := range pools {
		p := &pools[i]
		if p.Namespace != c.Namespace || p.Labels[clusterv1.ClusterNameLabel] != c.Name {
			continue
		}
		line := PoolLine{Namespace: p.Namespace, Name: p.Name, Replicas: p.Status.Replicas, Updated: ptr.Deref(p.Status.UpdatedReplicas, 0)}
		if rolling := meta.FindStatusCondition(p.Status.Conditions, clusterv1.RollingOutCondition); rolling != nil && rolling.Status == metav1.ConditionTrue {
			line.Doing = rolling.Message
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b PoolLine) int { return status.NaturalCompare(a.Name, b.Name) })
	return lines
}
