package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/status"
)

// FleetFilter narrows the fleet. The zero value is all of it.
type FleetFilter struct {
	// Text is part of a host's name, address or machine.
	Text string
	// State is the word of the host's state.
	State string
	// Domain is its failure domain; NoDomain for hosts without one.
	Domain string
	// Attention leaves only hosts that somebody should look at.
	Attention bool
	// Page counts from 1.
	Page int
}

// NoDomain is what hosts without a failure domain are in.
const NoDomain = "no failure domain"

// Fleet is the hosts by their failure domain.
type Fleet struct {
	Filter FleetFilter
	// Total counts all hosts, Connected and Attention some of them.
	Total, Connected, Attention int
	// States there are: those first on which somebody must act.
	States []Count
	// Domains there are, with all their hosts.
	Domains []Domain
	// Racks are the hosts of the page by their failure domain.
	Racks []Rack
	Pager Pager
}

// Count is how many hosts are in a state.
type Count struct {
	status.State
	Hosts int
}

// Domain sums up the hosts of a failure domain.
type Domain struct {
	Name                        string
	Hosts, Connected, Attention int
	Free                        int
}

// Rack is what a page has of a failure domain.
type Rack struct {
	Domain Domain
	Hosts  []status.Host
}

// roleOrder are the roles of states as they are listed.
var roleOrder = []status.Role{status.Bad, status.Wait, status.Work, status.Off, status.Free, status.OK}

// FleetOf shows hosts, which are sorted by namespace and name.
func FleetOf(hosts []status.Host, filter FleetFilter) Fleet {
	f := Fleet{Filter: filter, Total: len(hosts)}
	domains := map[string]*Domain{}
	var shown []status.Host
	for i := range hosts {
		h := &hosts[i]
		name := cmp.Or(h.FailureDomain, NoDomain)
		d := domains[name]
		if d == nil {
			d = &Domain{Name: name}
			domains[name] = d
		}
		d.add(h)
		f.count(h)
		if filter.shows(h) {
			shown = append(shown, *h)
		}
	}
	slices.SortFunc(f.States, func(a, b Count) int {
		return cmp.Or(cmp.Compare(slices.Index(roleOrder, a.Role), slices.Index(roleOrder, b.Role)), cmp.Compare(a.Word, b.Word))
	})
	for _, d := range domains {
		f.Domains = append(f.Domains, *d)
	}
	slices.SortFunc(f.Domains, func(a, b Domain) int { return byDomain(a.Name, b.Name) })
	// The order within a domain is that of the hosts.
	slices.SortStableFunc(shown, func(a, b status.Host) int {
		return byDomain(cmp.Or(a.FailureDomain, NoDomain), cmp.Or(b.FailureDomain, NoDomain))
	})
	shown, f.Pager = paged(shown, filter.Page)
	f.Racks = racksOf(shown, domains)
	return f
}

func racksOf(shown []status.Host, domains map[string]*Domain) []Rack {
	var racks []Rack
	for i := range shown {
		name := cmp.Or(shown[i].FailureDomain, NoDomain)
		if len(racks) == 0 || racks[len(racks)-1].Domain.Name != name {
			racks = append(racks, Rack{Domain: *domains[name]})
		}
		last := &racks[len(racks)-1]
		last.Hosts = append(last.Hosts, shown[i])
	}
	return racks
}

// byDomain has hosts without one at the end, and rack-2 before rack-10.
func byDomain(a, b string) int {
	return cmp.Or(cmp.Compare(one(a == NoDomain), one(b == NoDomain)), status.NaturalCompare(a, b))
}

func (d *Domain) add(h *status.Host) {
	d.Hosts++
	d.Connected += one(h.Connected)
	d.Attention += one(h.State.Attention())
	d.Free += one(h.State.Role == status.Free)
}

// count adds a host to the sums.
func (f *Fleet) count(h *status.Host) {
	f.Connected += one(h.Connected)
	f.Attention += one(h.State.Attention())
	i := slices.IndexFunc(f.States, func(c Count) bool { return c.Word == h.State.Word && c.Role == h.State.Role })
	if i < 0 {
		i, f.States = len(f.States), append(f.States, Count{State: status.State{Word: h.State.Word, Role: h.State.Role}})
	}
	f.States[i].Hosts++
}

func (f FleetFilter) shows(h *status.Host) bool {
	switch {
	case f.State != "" && f.State != h.State.Word,
		f.Domain != "" && f.Domain != cmp.Or(h.FailureDomain, NoDomain),
		f.Attention && !h.State.Attention():
		return false
	}
	return f.Text == "" || slices.ContainsFunc(append([]string{h.Namespace + "/" + h.Name, h.ClaimedBy}, h.Addresses...), func(s string) bool {
		return strings.Contains(strings.ToLower(s), strings.ToLower(f.Text))
	})
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
