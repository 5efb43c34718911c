package pool

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/text"
)

// maxNamed is how many members a message names before it counts the rest.
const maxNamed = 3

// pause stops a rollout whose new members fail, before it spoils the rest of the
// pool. The size is still kept.
func (b *planner) pause() {
	if b.total == b.updated {
		return
	}
	var failed []string
	for _, m := range b.staying {
		if m.Failed && b.upToDate(m) && !b.gone[m.Name] {
			failed = append(failed, m.Name)
		}
	}
	switch {
	case len(failed) > 0:
		b.plan.Pause = Pause{infrav1.RolloutFailedReason, fmt.Sprintf(
			"%d updated machines failed (%s). The rollout goes on when they are deleted or repaired, or with another version or revision",
			len(failed), text.List(failed, maxNamed))}
	case b.pool.Stalled:
		b.plan.Pause = Pause{infrav1.ProgressDeadlineExceededReason, fmt.Sprintf(
			"There was no progress within spec.strategy.progressDeadlineSeconds; %s. The rollout goes on with the next machine that becomes available, "+
				"or with another version or revision", b.awaited())}
	}
}

// awaited says what a rollout without progress waits for.
func (b *planner) awaited() string {
	var names []string
	for _, m := range b.staying {
		if !m.Available && !b.gone[m.Name] {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return "every machine is available"
	}
	return fmt.Sprintf("%d machines are not available (%s)", len(names), text.List(names, maxNamed))
}

// rolling says whether outdated members may be replaced or upgraded now.
func (b *planner) rolling() bool {
	return b.plan.Pause == Pause{} && b.pool.Hold == "" && b.total > b.updated
}

// budgets are how many members may stop now: of all, and of the available ones.
// New members that are not available use up the first, so that a rollout whose new
// members don't come up stops, however many old ones are unavailable, too.
func (b *planner) budgets() (all, available int) {
	needed := b.pool.Desired - b.pool.Strategy.MaxUnavailable
	return b.total - needed - b.updatedUnavailable, b.available - needed
}

// removeNeverPlaced removes outdated members that have no host: nothing is lost
// with them, and they would take hosts from new ones.
func (b *planner) removeNeverPlaced() {
	if !b.rolling() || b.pool.External {
		return
	}
	for _, m := range b.outdated() {
		if !m.Claimed {
			b.remove(m, b.difference(m))
		}
	}
}

// inPlace says whether an outdated member is upgraded on its host. What differs in
// more than the version can't be: only a bootstrap applies that. Nor can one whose
// host is to be emptied.
func (b *planner) inPlace(m Member) bool {
	if !m.Claimed || m.Evacuate || m.Revision != b.pool.Revision {
		return false
	}
	s := b.pool.Strategy
	return s.Type == infrav1.RolloutTypeInPlace || (s.NoSpareHost == infrav1.NoSpareHostInPlace && b.spare <= 0)
}

// upgrade upgrades members on their hosts, at most as many as the pool still lacks:
// where a new member waits for a host already, an old one makes room for it.
func (b *planner) upgrade() {
	if !b.rolling() {
		return
	}
	var lacking []string
	for _, m := range b.outdated() {
		if !b.inPlace(m) || b.updated >= b.pool.Desired {
			continue
		}
		if !m.Upgradable {
			lacking = append(lacking, m.Name)
			continue
		}
		all, available := b.budgets()
		if all <= 0 || (m.Available && available <= 0) {
			b.holdBudget()
			break
		}
		b.step(Step{Action: ActionUpgrade, Name: m.Name, Reason: b.difference(m)})
		b.count(m, -1)
		m.Version, m.Available = b.pool.Version, false
		b.count(m, 1)
		b.markUpgraded(m)
	}
	if len(lacking) > 0 {
		b.holdf("the hosts of %d machines do not offer %s (%s): install it there", len(lacking), b.pool.Version, text.List(lacking, maxNamed))
	}
}

// markUpgraded keeps the later phases from taking the member for outdated.
func (b *planner) markUpgraded(m Member) {
	if i := slices.IndexFunc(b.staying, func(s Member) bool { return s.Name == m.Name }); i >= 0 {
		b.staying[i] = m
	}
}

// replace removes outdated members as far as the budgets allow. The next plan
// creates what replaces them, or did so already.
func (b *planner) replace() {
	b.holdOnDelete()
	if b.pool.Hold != "" && b.total > b.updated {
		b.holdf("%s", b.pool.Hold)
	}
	if !b.rolling() {
		return
	}
	replacements := b.replacements()
	var machineless, homeless []string
	for _, m := range b.outdated() {
		if b.inPlace(m) && b.updated < b.pool.Desired {
			continue
		}
		if b.pool.External && !replaceable(m, replacements) {
			continue
		}
		if m.Claimed && !m.Machine {
			machineless = append(machineless, m.Name)
			continue
		}
		if b.homeless(m) {
			homeless = append(homeless, m.Name)
			continue
		}
		all, available := b.budgets()
		if all <= 0 || (m.Available && available <= 0) {
			b.holdBudget()
			break
		}
		b.remove(m, b.difference(m))
	}
	b.holdMachineless(machineless)
	if len(homeless) > 0 {
		b.holdf("%d machines are to leave their hosts (%s), but no other host is free and fits: add one", len(homeless), text.List(homeless, maxNamed))
	}
}

// holdOnDelete counts what only a deletion by somebody else replaces.
func (b *planner) holdOnDelete() {
	waiting := 0
	for _, m := range b.staying {
		if !b.gone[m.Name] && b.keeps(m) && !b.upToDate(m) {
			waiting++
		}
	}
	if waiting > 0 {
		b.holdf("%d outdated machines wait to be deleted (strategy OnDelete)", waiting)
	}
}

// homeless says whether the host of a member is to be emptied while there is none for
// the member in its place: that one would wait as long as the host is away.
func (b *planner) homeless(m Member) bool {
	return m.Evacuate && b.spare < max(b.pool.Desired-b.total+1, 0)
}

// holdBudget tells why no other member may stop.
func (b *planner) holdBudget() {
	var waiting, placing []string
	for _, m := range b.staying {
		switch {
		case b.gone[m.Name] || m.Available || !b.keeps(m):
		case !m.Claimed:
			placing = append(placing, m.Name)
		default:
			waiting = append(waiting, m.Name)
		}
	}
	var parts []string
	if len(placing) > 0 {
		parts = append(parts, fmt.Sprintf("%d updated machines to get a host (%s)", len(placing), text.List(placing, maxNamed)))
	}
	if len(waiting) > 0 {
		parts = append(parts, fmt.Sprintf("%d updated machines to become available (%s)", len(waiting), text.List(waiting, maxNamed)))
	}
	needed := b.pool.Desired - b.pool.Strategy.MaxUnavailable
	if b.available <= needed && b.available < b.pool.Desired {
		parts = append(parts, fmt.Sprintf("more than %d of %d machines to be available", b.available, b.pool.Desired))
	}
	if len(parts) > 0 {
		hold := "waiting for " + strings.Join(parts, " and ")
		if !slices.Contains(b.plan.Holds, hold) {
			b.holdf("%s", hold)
		}
	}
}
