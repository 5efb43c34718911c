package view

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/status"
)

// FleetFilter narrows the fleet. The zero value is all of it.
type FleetFilter struct {
	// Text is part of a host's name, address or machine.
	Text string
	// Phase of the host.
	Phase string
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
	// Phases there are, in the order of a host's life.
	Phases []Count
	// Domains there are, with all their hosts.
	Domains []Domain
	// Racks are the hosts of the page by their failure domain.
	Racks []Rack
	Pager Pager
}

// Count is how many hosts are in a phase. An empty one, of hosts that have not been seen yet,
// is no filter.
type Count struct {
	Phase string
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
	Hosts  []Cell
}

// Cell is one host.
type Cell struct {
	status.Host
	// Attention says that somebody should look at it.
	Attention bool
}

// lifeOrder are the phases as a host goes through them.
var lifeOrder = []infrav1.HostPhase{
	infrav1.HostPhaseEnrolling, infrav1.HostPhaseAvailable, infrav1.HostPhaseClaimed, infrav1.HostPhaseBootstrapping, infrav1.HostPhaseAdopting,
	infrav1.HostPhaseRunning, infrav1.HostPhaseUpgrading, infrav1.HostPhaseRebooting, infrav1.HostPhaseResetting,
	infrav1.HostPhaseQuarantined, infrav1.HostPhaseFailed,
}

// FleetOf shows hosts, which are sorted by namespace and name, and what doctor found on them.
func FleetOf(hosts []status.Host, findings []doctor.Finding, filter FleetFilter) Fleet {
	found := map[types.NamespacedName]bool{}
	for _, f := range findings {
		if f.Object.Kind == "Host" && f.Severity != doctor.Note {
			found[types.NamespacedName{Namespace: f.Object.Namespace, Name: f.Object.Name}] = true
		}
	}
	f := Fleet{Filter: filter, Total: len(hosts)}
	phases, domains := map[string]int{}, map[string]*Domain{}
	var shown []Cell
	for i := range hosts {
		h := &hosts[i]
		cell := Cell{Host: *h, Attention: attention(h) || found[types.NamespacedName{Namespace: h.Namespace, Name: h.Name}]}
		phases[cell.Phase]++
		name := cmp.Or(cell.FailureDomain, NoDomain)
		d := domains[name]
		if d == nil {
			d = &Domain{Name: name}
			domains[name] = d
		}
		d.add(&cell)
		f.Connected += one(cell.Connected)
		f.Attention += one(cell.Attention)
		if filter.shows(&cell) {
			shown = append(shown, cell)
		}
	}
	for _, phase := range lifeOrder {
		if n := phases[string(phase)]; n > 0 {
			f.Phases = append(f.Phases, Count{string(phase), n})
		}
	}
	if n := phases[""]; n > 0 {
		f.Phases = append(f.Phases, Count{"", n})
	}
	for _, d := range domains {
		f.Domains = append(f.Domains, *d)
	}
	slices.SortFunc(f.Domains, func(a, b Domain) int { return byDomain(a.Name, b.Name) })
	// The order within a domain is that of the hosts.
	slices.SortStableFunc(shown, func(a, b Cell) int {
		return byDomain(cmp.Or(a.FailureDomain, NoDomain), cmp.Or(b.FailureDomain, NoDomain))
	})
	shown, f.Pager = paged(shown, filter.Page)
	f.Racks = racksOf(shown, domains)
	return f
}

func racksOf(shown []Cell, domains map[string]*Domain) []Rack {
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

func (d *Domain) add(c *Cell) {
	d.Hosts++
	d.Connected += one(c.Connected)
	d.Attention += one(c.Attention)
	d.Free += one(c.Phase == string(infrav1.HostPhaseAvailable))
}

// attention says whether a host does not do what it should without anybody's help.
func attention(h *status.Host) bool {
	switch infrav1.HostPhase(h.Phase) {
	case infrav1.HostPhaseQuarantined, infrav1.HostPhaseFailed:
		return true
	case infrav1.HostPhaseEnrolling:
		return h.Approval != "" && h.Approval != string(infrav1.HostApprovalApproved)
	default:
		return !h.Connected
	}
}

func (f FleetFilter) shows(c *Cell) bool {
	switch {
	case f.Phase != "" && f.Phase != c.Phase,
		f.Domain != "" && f.Domain != cmp.Or(c.FailureDomain, NoDomain),
		f.Attention && !c.Attention:
		return false
	}
	return f.Text == "" || slices.ContainsFunc(append([]string{c.Namespace + "/" + c.Name, c.ClaimedBy}, c.Addresses...), func(s string) bool {
		return strings.Contains(strings.ToLower(s), strings.ToLower(f.Text))
	})
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
