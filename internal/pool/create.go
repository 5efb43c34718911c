package pool

import (
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// create fills the pool up to its size and, while outdated members are replaced, up
// to the surge above it. Never more members are up to date than are desired, so that
// none of them is surplus at the end.
func (b *planner) create() {
	missing := max(b.pool.Desired-b.total, 0)
	if b.pool.Revision == "" {
		if missing > 0 {
			b.holdf("%d machines wait for the bootstrap data they are made from", missing)
		}
		return
	}
	surge := min(b.toReplace(), b.pool.Desired+b.pool.Strategy.MaxSurge-b.total) - missing
	spare := max(b.spare-missing, 0)
	if b.pool.Strategy.NoSpareHost == infrav1.NoSpareHostInPlace {
		surge = min(surge, spare)
	}
	surge = min(surge, b.others()+spare)
	outdated := b.unreplaced()
	spread := b.newSpread()
	for range missing {
		b.step(Step{Action: ActionCreate, Domain: spread.next(), Reason: fmt.Sprintf("%d of %d exist", b.total, b.pool.Desired)})
	}
	for i := range max(surge, 0) {
		s := Step{Action: ActionCreate, Domain: spread.next(), Reason: "to replace outdated machines"}
		if b.pool.External {
			if i >= len(outdated) {
				break
			}
			s.Replaces = outdated[i].Name
		}
		b.step(s)
	}
}

// toReplace is how many members are still to be made in place of outdated ones.
func (b *planner) toReplace() int {
	if !b.rolling() {
		return 0
	}
	lacking := b.pool.Desired - b.updated
	if b.pool.Strategy.Type == infrav1.RolloutTypeInPlace || b.pool.Strategy.NoSpareHost == infrav1.NoSpareHostInPlace {
		for _, m := range b.outdated() {
			if b.inPlace(m) {
				lacking--
			}
		}
	}
	return lacking
}

// others counts the outdated members whose hosts may be used again. What takes the
// place of the rest needs a host of its own.
func (b *planner) others() int {
	n := 0
	for _, m := range b.outdated() {
		if !m.Evacuate {
			n++
		}
	}
	return n
}

// unreplaced are the outdated members that no other was made to replace.
func (b *planner) unreplaced() []Member {
	if !b.pool.External {
		return nil
	}
	replacements := b.replacements()
	var names []Member
	for _, m := range b.outdated() {
		if _, found := replacements[m.Name]; !found {
			names = append(names, m)
		}
	}
	return names
}
