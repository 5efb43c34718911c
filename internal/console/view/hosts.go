package view

import (
	"cmp"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// HostFilter narrows the hosts. The zero value is all of them.
type HostFilter struct {
	// Text is part of a host's name, address or machine.
	Text string
	// State is the word of the host's state.
	State string
	// Domain is its failure domain; NoDomain for hosts without one.
	Domain string
	// Cluster that has it, and the Version of Kubernetes of its machine.
	Cluster, Version string
	// Attention leaves only hosts on which somebody must act or decide.
	Attention bool
	// Racks shows the hosts by failure domain instead of a list.
	Racks bool
	// Page counts from 1.
	Page int
}

// Narrow says whether it leaves any host out.
func (f HostFilter) Narrow() bool {
	f.Page, f.Racks = 0, false
	return f != HostFilter{}
}

// NoDomain is what hosts without a failure domain are in.
const NoDomain = "no failure domain"

// Hosts are the hosts that a filter leaves.
type Hosts struct {
	Filter HostFilter
	// Total counts all hosts, Connected and Attention some of them.
	Total, Connected, Attention int
	// States there are: those first on which somebody must act.
	States []Count
	// DomainNames, ClusterNames and Versions there are.
	DomainNames, ClusterNames, Versions []string
	// Shown are the hosts of the page, those of one failure domain together.
	Shown []HostLine
	// Domains have all hosts that the filter leaves, for Filter.Racks.
	Domains []Domain
	Squares bool
	Pager   Pager
}

// HostLine is a host of a list.
type HostLine struct {
	status.Host
	// Cluster and MachineName that have it; empty while it is free.
	Cluster, MachineName string
	// Version of Kubernetes on it; empty while it is free.
	Version string
	// Agent is the version of its agent.
	Agent string
}

// Count is how many hosts are in a state.
type Count struct {
	status.State
	Hosts int
}

// Domain is a failure domain.
type Domain struct {
	Name            string
	Hosts           []status.Host
	Free, Attention int
	Bar             Bar
}

// roleOrder are the roles of states as they are listed.
var roleOrder = []status.Role{status.Bad, status.Wait, status.Work, status.Off, status.Free, status.OK}

// HostLinesOf has a line of each host in scope, sorted by namespace and name.
func HostLinesOf(o *doctor.Snapshot, states *status.States) []HostLine {
	machines := o.MachinesOnHosts()
	var lines []HostLine
	for _, h := range status.HostsOf(o, states) {
		line := HostLine{Host: h}
		of := o.Host(h.Namespace, h.Name)
		line.Agent = of.Status.Inventory.AgentVersion
		if claim := of.Spec.Claim; claim != nil {
			line.Cluster, line.MachineName = claim.ClusterName, claim.MachineName
			line.Version = versionOn(machines[keyIn(h.Namespace, claim.MachineName)])
		}
		lines = append(lines, line)
	}
	return lines
}

// versionOn is the version of the kubelet, or the one that its machine is to have.
func versionOn(m *clusterv1.Machine) string {
	switch {
	case m == nil:
		return ""
	case m.Status.NodeInfo != nil:
		return cmp.Or(m.Status.NodeInfo.KubeletVersion, m.Spec.Version)
	}
	return m.Spec.Version
}

// HostsOf shows hosts, which are sorted by namespace and name.
func HostsOf(hosts []HostLine, filter HostFilter) Hosts {
	v := Hosts{Filter: filter, Total: len(hosts)}
	domains, clusters, versions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var shown []HostLine
	for i := range hosts {
		h := &hosts[i]
		domains[cmp.Or(h.FailureDomain, NoDomain)], clusters[h.Cluster], versions[h.Version] = true, true, true
		v.count(&h.Host)
		if filter.shows(h) {
			shown = append(shown, *h)
		}
	}
	v.DomainNames, v.ClusterNames, v.Versions = names(domains), names(clusters), names(versions)
	slices.SortFunc(v.States, func(a, b Count) int {
		return cmp.Or(cmp.Compare(slices.Index(roleOrder, a.Role), slices.Index(roleOrder, b.Role)), cmp.Compare(a.Word, b.Word))
	})
	// The order within a domain is that of the hosts.
	slices.SortStableFunc(shown, func(a, b HostLine) int {
		return byDomain(cmp.Or(a.FailureDomain, NoDomain), cmp.Or(b.FailureDomain, NoDomain))
	})
	if filter.Racks {
		v.Squares = len(shown) <= maxSquares
		all := make([]status.Host, len(shown))
		for i := range shown {
			all[i] = shown[i].Host
		}
		v.Domains, v.Pager = domainsOf(all), Pager{Total: len(shown), Pages: 1}
		return v
	}
	v.Shown, v.Pager = paged(shown, filter.Page)
	return v
}

// names are those of a set but the empty one, rack-2 before rack-10.
func names(set map[string]bool) []string {
	delete(set, "")
	return slices.SortedFunc(maps.Keys(set), byDomain)
}

// byDomain has hosts without one at the end, and rack-2 before rack-10.
func byDomain(a, b string) int {
	return cmp.Or(cmp.Compare(one(a == NoDomain), one(b == NoDomain)), status.NaturalCompare(a, b))
}

// count adds a host to the sums.
func (v *Hosts) count(h *status.Host) {
	v.Connected += one(h.Connected)
	v.Attention += one(h.State.Attention())
	i := slices.IndexFunc(v.States, func(c Count) bool { return c.Word == h.State.Word && c.Role == h.State.Role })
	if i < 0 {
		i, v.States = len(v.States), append(v.States, Count{State: status.State{Word: h.State.Word, Role: h.State.Role}})
	}
	v.States[i].Hosts++
}

func (f HostFilter) shows(h *HostLine) bool {
	switch {
	case f.State != "" && f.State != h.State.Word,
		f.Domain != "" && f.Domain != cmp.Or(h.FailureDomain, NoDomain),
		f.Cluster != "" && f.Cluster != h.Cluster,
		f.Version != "" && f.Version != h.Version,
		f.Attention && !h.State.Attention():
		return false
	}
	return containsFold(f.Text, append([]string{h.Namespace + "/" + h.Name, h.ClaimedBy}, h.Addresses...)...)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
