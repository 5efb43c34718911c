package view

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// Overview is what somebody must act on or decide, and how everything is.
type Overview struct {
	// Troubles need somebody; Notes are what somebody wanted, and what began a moment ago.
	Troubles, Notes []Trouble
	// Checks is how many were applied.
	Checks  int
	Summary Summary
	// Clusters are those first that need somebody; More is how many are left out.
	Clusters     []ClusterLine
	MoreClusters int
	Domains      []Domain
	// Squares says that Domains have their hosts: not for a fleet of thousands.
	Squares  bool
	Activity []Event
	// Unchecked are kinds that the user may not read, so that checks of them found nothing.
	Unchecked []string
}

// Summary counts. Attention is how many need somebody, Decisions how many of these a decision.
type Summary struct {
	Attention, Decisions                 int
	Clusters, ClustersUnwell             int
	Hosts, Connected, Free               int
	Machines, MachinesReady, RollingOuts int
}

// ClusterLine is a cluster with its machines.
type ClusterLine struct {
	status.Cluster
	Version               string
	ControlPlane, Workers Bar
}

const (
	// maxCards is how many clusters the overview has.
	maxCards = 12
	// maxSquares is how many hosts it has.
	maxSquares = 2000
	// maxActivity is how many events it has.
	maxActivity = 8
)

// SummaryOf counts what a snapshot has.
func SummaryOf(o *doctor.Snapshot, states *status.States) Summary {
	s := Summary{Clusters: len(o.Clusters), Hosts: len(o.Hosts), Machines: len(o.Machines)}
	for i := range o.Clusters {
		c := &o.Clusters[i]
		s.ClustersUnwell += one(states.Cluster(c).Role == status.Bad)
		s.RollingOuts += one(meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ClusterRollingOutCondition))
	}
	for i := range o.Hosts {
		h := status.HostOf(&o.Hosts[i], states)
		s.Connected += one(h.Connected)
		s.Free += one(h.State.Role == status.Free)
	}
	for i := range o.Machines {
		s.MachinesReady += one(meta.IsStatusConditionTrue(o.Machines[i].Status.Conditions, clusterv1.MachineNodeReadyCondition))
	}
	found, _ := status.Ranked(states.Findings())
	for i := range found {
		s.Attention += one(found[i].Attention())
		s.Decisions += one(found[i].Role == status.Wait)
	}
	return s
}

// OverviewOf shows all there is.
func OverviewOf(o *doctor.Snapshot, states *status.States, told status.Status, activity []Event) Overview {
	v := Overview{Summary: SummaryOf(o, states), Checks: len(doctor.Checks()), Squares: len(told.Hosts) <= maxSquares, Activity: activity[:min(len(activity), maxActivity)]}
	v.Troubles, v.Notes = TroublesOf(states.Findings(), o)
	v.Clusters = ClusterLinesOf(o, states, told.Clusters)
	slices.SortStableFunc(v.Clusters, func(a, b ClusterLine) int {
		return cmp.Compare(slices.Index(roleOrder, a.State.Role), slices.Index(roleOrder, b.State.Role))
	})
	v.MoreClusters = max(0, len(v.Clusters)-maxCards)
	v.Clusters = v.Clusters[:min(len(v.Clusters), maxCards)]
	v.Domains = domainsOf(told.Hosts)
	for i := range o.Unread {
		if slices.ContainsFunc(doctor.Around, func(k snapshot.Kind) bool { return k.Is(o.Unread[i].Kind) }) {
			v.Unchecked = append(v.Unchecked, o.Unread[i].Kind)
		}
	}
	return v
}

// ClusterLinesOf has a line of each cluster, in the same order.
func ClusterLinesOf(o *doctor.Snapshot, states *status.States, told []status.Cluster) []ClusterLine {
	type group struct {
		namespace, cluster string
		controlPlane       bool
	}
	count := map[group]map[status.Role]int{}
	for i := range o.HostMachines {
		m := &o.HostMachines[i]
		_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		of := group{m.Namespace, m.Labels[clusterv1.ClusterNameLabel], controlPlane}
		if count[of] == nil {
			count[of] = map[status.Role]int{}
		}
		count[of][states.Machine(m).Role]++
	}
	var lines []ClusterLine
	for _, c := range told {
		line := ClusterLine{Cluster: c}
		if of := o.Cluster(c.Namespace, c.Name); of != nil && of.Spec.Topology.IsDefined() {
			line.Version = of.Spec.Topology.Version
		}
		var workers status.Replicas
		for _, p := range c.Pools {
			workers.Desired, workers.Ready = workers.Desired+p.Desired, workers.Ready+p.Ready
		}
		line.ControlPlane = replicaBar(c.ControlPlane, count[group{c.Namespace, c.Name, true}])
		line.Workers = replicaBar(workers, count[group{c.Namespace, c.Name, false}])
		lines = append(lines, line)
	}
	return lines
}

// domainsOf sums hosts up by their failure domain.
func domainsOf(hosts []status.Host) []Domain {
	domains, count := map[string]*Domain{}, map[string]map[status.Role]int{}
	for i := range hosts {
		name := cmp.Or(hosts[i].FailureDomain, NoDomain)
		d := domains[name]
		if d == nil {
			d, count[name] = &Domain{Name: name}, map[status.Role]int{}
			domains[name] = d
		}
		d.Hosts = append(d.Hosts, hosts[i])
		d.Attention += one(hosts[i].State.Attention())
		d.Free += one(hosts[i].State.Role == status.Free)
		count[name][hosts[i].State.Role]++
	}
	var all []Domain
	for name, d := range domains {
		d.Bar = barOf(len(d.Hosts), count[name], fmt.Sprintf("%d free of %d", d.Free, len(d.Hosts)))
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Domain) int { return byDomain(a.Name, b.Name) })
	return all
}
