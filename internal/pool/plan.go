package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/text"
)

// MakePlan plans the next steps of a pool.
func MakePlan(p Pool) Plan {
	b := newPlanner(p)
	if p.Frozen != "" {
		b.removeRemains()
		b.removeSurplus()
		b.holdf("%s: no machine is added, replaced or upgraded", p.Frozen)
		return b.plan
	}
	for _, phase := range []func(){
		b.removeRemains,
		b.removeSurplus,
		b.pause,
		b.removeNeverPlaced,
		b.upgrade,
		b.replace,
		b.create,
		b.move,
	} {
		phase()
	}
	return b.plan
}

// planner holds the counts that the phases keep up to date while they add steps.
type planner struct {
	pool Pool
	plan Plan
	// staying are the members that are not leaving, by name; gone those of them
	// that the plan removes.
	staying []Member
	gone    map[string]bool
	// total counts staying less gone; updated, available and updatedUnavailable
	// are the parts of it that budgets depend on.
	total, updated, available, updatedUnavailable int
	// spare are the free hosts that no member waits for.
	spare int
	// load counts them by failure domain.
	load map[string]int
}

func newPlanner(p Pool) *planner {
	b := &planner{pool: p, gone: map[string]bool{}, load: map[string]int{}, spare: p.FreeHosts}
	b.pool.Members = slices.SortedFunc(slices.Values(p.Members), func(x, y Member) int { return cmp.Compare(x.Name, y.Name) })
	for i := range b.pool.Members {
		m := &b.pool.Members[i]
		m.Available = m.Available && !m.Upgrading
		if m.Leaving {
			b.plan.Leaving++
		}
		if m.HostMachine && !m.Leaving {
			b.staying = append(b.staying, *m)
			b.count(*m, 1)
		}
	}
	b.summarise()
	if p.External {
		b.takeSize()
	}
	b.plan.Desired = b.pool.Desired
	return b
}

// summarise tells what there is before any step.
func (b *planner) summarise() {
	b.plan.Available = b.available
	for _, m := range b.staying {
		switch {
		case b.differs(m):
			b.plan.Outdated++
		case m.Available:
			b.plan.UpdatedAvailable++
			fallthrough
		default:
			b.plan.Updated++
		}
	}
	b.plan.Differences = b.differences()
}

// count adds a member to the counts, or takes it away with n = -1.
func (b *planner) count(m Member, n int) {
	b.total += n
	b.load[m.Domain] += n
	if !m.Claimed {
		b.spare -= n
	}
	if m.Available {
		b.available += n
	}
	if b.keeps(m) {
		b.updated += n
		if !m.Available {
			b.updatedUnavailable += n
		}
	}
}

// takeSize takes the size from the members. A replacement counts only once the
// member it replaces leaves; it is always made first, so that the size never looks
// smaller than it is.
func (b *planner) takeSize() {
	b.pool.Desired = b.total - len(b.replacements())
	b.pool.Strategy.MaxSurge = max(1, b.pool.Strategy.MaxSurge)
}

// replacements maps members that stay to those made to replace them.
func (b *planner) replacements() map[string]Member {
	replacements := map[string]Member{}
	if !b.pool.External {
		return replacements
	}
	stays := map[string]bool{}
	for _, m := range b.staying {
		stays[m.Name] = !b.gone[m.Name]
	}
	for _, m := range b.staying {
		if m.Replaces != "" && stays[m.Name] && stays[m.Replaces] {
			replacements[m.Replaces] = m
		}
	}
	return replacements
}

// replaceable says whether an outdated member may go in a pool whose size is not
// ours: when its replacement is there, or when it is itself a replacement that did
// not come up.
func replaceable(m Member, replacements map[string]Member) bool {
	return replacements[m.Name].Available || (!m.Available && replacements[m.Replaces].Name == m.Name)
}

// upToDate says whether a member has the version and the revision of the pool and a
// host to stay on. Every one has while the revision is not known.
func (b *planner) upToDate(m Member) bool {
	return b.pool.Revision == "" || (m.Version == b.pool.Version && m.Revision == b.pool.Revision && !m.Evacuate)
}

// keeps says whether a member may stay: it is up to date, or somebody else is to
// delete it.
func (b *planner) keeps(m Member) bool {
	return b.upToDate(m) || (b.pool.Strategy.Type == infrav1.RolloutTypeOnDelete && !m.Evacuate)
}

// outdated are the members that may not stay and are not gone yet, in the order they
// are removed.
func (b *planner) outdated() []Member {
	var outdated []Member
	for _, m := range b.staying {
		if !b.gone[m.Name] && !b.keeps(m) {
			outdated = append(outdated, m)
		}
	}
	return b.removalOrder(outdated)
}

// removeRemains deletes Machines whose HostMachine is gone or is being deleted.
func (b *planner) removeRemains() {
	for _, m := range b.pool.Members {
		if !m.Machine || m.MachineLeaving {
			continue
		}
		switch {
		case !m.HostMachine:
			b.step(Step{Action: ActionDeleteMachine, Name: m.Name, Reason: "its HostMachine is gone"})
		case m.Leaving:
			b.step(Step{Action: ActionDeleteMachine, Name: m.Name, Reason: "its HostMachine is being deleted"})
		}
	}
}

// removeSurplus shrinks the pool. During a rollout it may be larger by the surge.
func (b *planner) removeSurplus() {
	if b.pool.External {
		b.removeNeedless()
		return
	}
	allowed := b.pool.Desired
	if b.total > b.updated && b.pool.Desired > 0 {
		allowed += b.pool.Strategy.MaxSurge
	}
	surplus := b.total - allowed
	if surplus <= 0 {
		return
	}
	why := fmt.Sprintf("scaling down from %d to %d", b.total, allowed)
	var machineless []string
	for _, m := range b.removalOrder(b.staying)[:surplus] {
		if m.Provisioned && !m.Machine && !b.pool.Deleting {
			machineless = append(machineless, m.Name)
			continue
		}
		b.remove(m, why)
	}
	b.holdMachineless(machineless)
}

// removeNeedless removes one of each two members of which one was made to replace the
// other, when that is up to date after all: what was wanted changed back.
func (b *planner) removeNeedless() {
	replacements := b.replacements()
	for _, m := range b.staying {
		if other, found := replacements[m.Name]; found && b.keeps(m) && !b.gone[other.Name] {
			pair := b.removalOrder([]Member{m, other})
			// A mark must not cost the one that is available.
			slices.SortStableFunc(pair, func(x, y Member) int { return falseFirst(x.Available, y.Available) })
			if _, available := b.budgets(); pair[0].Available && available <= 0 {
				continue
			}
			b.remove(pair[0], "its replacement is not needed any more")
		}
	}
}

// holdMachineless tells which members wait to be drained. Core makes a Machine for each
// member, but for those of a pool that is being deleted.
func (b *planner) holdMachineless(names []string) {
	if len(names) > 0 {
		b.holdf("Cluster API has not made the Machines yet that are needed to drain %s", text.List(names, maxNamed))
	}
}

// remove deletes a member, through its Machine when it has one.
func (b *planner) remove(m Member, why string) {
	action := ActionDeleteMachine
	if !m.Machine {
		action = ActionDeleteHostMachine
	}
	b.step(Step{Action: action, Name: m.Name, Reason: why})
	b.gone[m.Name] = true
	b.count(m, -1)
}

func (b *planner) step(s Step) { b.plan.Steps = append(b.plan.Steps, s) }

func (b *planner) holdf(format string, args ...any) {
	b.plan.Holds = append(b.plan.Holds, fmt.Sprintf(format, args...))
}

// difference says what makes a member outdated.
func (b *planner) difference(m Member) string {
	var parts []string
	if m.Version != b.pool.Version {
		parts = append(parts, fmt.Sprintf("version %s, wanted %s", orUnknown(m.Version), orUnknown(b.pool.Version)))
	}
	if m.Revision != b.pool.Revision {
		parts = append(parts, fmt.Sprintf("revision %s, wanted %s", orUnknown(m.Revision), b.pool.Revision))
	}
	if m.Upgrading && m.Version == b.pool.Version {
		parts = append(parts, "a host that is changing to version "+m.Version)
	}
	if m.Evacuate {
		parts = append(parts, "a host that is to be emptied")
	}
	return strings.Join(parts, "; ")
}

// differs says of a member that it has not the version and the revision of the pool, or not
// yet.
func (b *planner) differs(m Member) bool { return !b.upToDate(m) || m.Upgrading }

// differences counts what makes members outdated, the most frequent first.
func (b *planner) differences() []string {
	counts := map[string]int{}
	for _, m := range b.staying {
		if b.differs(m) {
			counts[b.difference(m)]++
		}
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
	var differences []string
	for _, kind := range kinds[:min(len(kinds), maxNamed)] {
		differences = append(differences, fmt.Sprintf("%d of %s", counts[kind], kind))
	}
	return differences
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }
