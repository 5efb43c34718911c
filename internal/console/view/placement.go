package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/internal/status"
)

// Placement is what each host is to one machine.
type Placement struct {
	status.Placement
	// Reasons why hosts don't fit, those of most hosts first, at most maxReasons.
	Reasons []Reason
	// Shown are the hosts of the page.
	Shown []status.PlacementHost
	Pager Pager
}

// Reason is one for which a number of hosts don't fit.
type Reason struct {
	Hosts int
	Why   string
	// Bar are the hosts that are left once these are taken away.
	Bar Bar
	// Help is what may make the first of them fit.
	Help string
}

// maxReasons are told of a large fleet.
const maxReasons = 10

// PlacementOf shows what status tells.
func PlacementOf(p status.Placement, page int) Placement {
	v := Placement{Placement: p}
	for _, h := range p.Hosts {
		if h.Fits {
			continue
		}
		i := slices.IndexFunc(v.Reasons, func(r Reason) bool { return r.Why == h.Reason })
		if i < 0 {
			i, v.Reasons = len(v.Reasons), append(v.Reasons, Reason{Why: h.Reason, Help: h.Remedy})
		}
		v.Reasons[i].Hosts++
	}
	slices.SortFunc(v.Reasons, func(a, b Reason) int { return cmp.Or(b.Hosts-a.Hosts, cmp.Compare(a.Why, b.Why)) })
	v.Reasons = v.Reasons[:min(len(v.Reasons), maxReasons)]
	left := len(p.Hosts)
	for i := range v.Reasons {
		left -= v.Reasons[i].Hosts
		v.Reasons[i].Bar = barOf(len(p.Hosts), map[status.Role]int{status.Free: left}, fmt.Sprintf("%d of %d left", left, len(p.Hosts)))
	}
	v.Shown, v.Pager = paged(p.Hosts, page)
	return v
}
