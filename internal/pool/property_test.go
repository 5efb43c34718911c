package pool_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// world plays hosts, core and the people around a pool, in a random order.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	pool   pool.Pool
	hosts  int
	made   int
	// planned is the size that the last plan worked towards.
	planned int
	// epoch counts the changes of what is wanted; born is that of each member.
	epoch int
	born  map[string]int
	log   []string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 7)), born: map[string]int{}}
	types := []infrav1.RolloutType{infrav1.RolloutTypeRollingUpdate, infrav1.RolloutTypeRollingUpdate, infrav1.RolloutTypeInPlace, infrav1.RolloutTypeOnDelete}
	policies := []infrav1.DeletePolicy{infrav1.DeletePolicyNewest, infrav1.DeletePolicyOldest, infrav1.DeletePolicyRandom}
	s := rolling(w.random.IntN(3), w.random.IntN(3))
	s.Type, s.DeletePolicy = pick(w, types), pick(w, policies)
	if w.one(3) {
		s.NoSpareHost = infrav1.NoSpareHostInPlace
	}
	if s.MaxUnavailable == 0 && (s.MaxSurge == 0 || s.Type == infrav1.RolloutTypeInPlace || s.NoSpareHost == infrav1.NoSpareHostInPlace) {
		s.MaxUnavailable = 1
	}
	w.pool = pool.Pool{Desired: w.random.IntN(6), Version: "v1", Revision: "r1", Strategy: s, HardSpread: w.one(2), External: w.one(6)}
	w.hosts = 4 + w.random.IntN(8)
	if w.one(2) {
		w.pool.Domains = []pool.Domain{{Name: "x"}, {Name: "y"}}
	}
	if w.pool.External {
		for range w.pool.Desired {
			w.add(pool.Step{})
		}
	}
	return w
}

func pick[T any](w *world, of []T) T { return of[w.random.IntN(len(of))] }

func (w *world) one(in int) bool { return w.random.IntN(in) == 0 }

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	tail := w.log[max(0, len(w.log)-30):]
	w.t.Fatalf("seed %d, %+v: %s\n%s", w.seed, w.pool.Strategy, fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) add(s pool.Step) {
	w.made++
	name := fmt.Sprintf("m%d", w.made)
	w.born[name] = w.epoch
	w.pool.Members = append(w.pool.Members, pool.Member{Name: name, HostMachine: true, Domain: s.Domain, Replaces: s.Replaces,
		Version: w.pool.Version, Revision: w.pool.Revision, Upgradable: true, Created: at(w.made)})
}

func (w *world) free() int {
	free := w.hosts
	for _, m := range w.pool.Members {
		if m.Claimed && m.HostMachine {
			free--
		}
	}
	return free
}

// see fills in what the controller would see of the hosts.
func (w *world) see() pool.Pool {
	p := w.pool
	p.FreeHosts = w.free()
	p.Domains = slices.Clone(p.Domains)
	for i := range p.Domains {
		p.Domains[i].Free = max(0, p.FreeHosts/len(p.Domains))
	}
	p.Members = slices.Clone(p.Members)
	w.random.Shuffle(len(p.Members), func(i, j int) { p.Members[i], p.Members[j] = p.Members[j], p.Members[i] })
	return p
}

func (w *world) counts() (total, available int) {
	for _, m := range w.pool.Members {
		if m.HostMachine && !m.Leaving {
			total++
			if m.Available && !m.Upgrading {
				available++
			}
		}
	}
	return total, available
}

// reconcile carries out a plan, sometimes only its first steps, and checks what a
// plan promises after each of them.
func (w *world) reconcile(complete bool) pool.Plan {
	w.t.Helper()
	seen := w.see()
	plan := pool.MakePlan(seen)
	if again := pool.MakePlan(w.see()); !reflect.DeepEqual(plan, again) {
		w.failf("the order of members counts:\n%+v\n%+v", plan, again)
	}
	w.planned = plan.Desired
	unavailable, surge := seen.Strategy.MaxUnavailable, seen.Strategy.MaxSurge
	if seen.External {
		surge = max(1, surge)
	}
	total, available := w.counts()
	most, least := max(total, plan.Desired+surge), min(available, plan.Desired-unavailable)
	steps := plan.Steps
	if !complete && len(steps) > 0 {
		steps = steps[:w.random.IntN(len(steps)+1)]
	}
	for _, s := range steps {
		if w.do(s) {
			least--
		}
		total, available = w.counts()
		if total > most {
			w.failf("%d members after %+v, at most %d allowed", total, s, most)
		}
		if available < least {
			w.failf("%d available after %+v, at least %d needed", available, s, least)
		}
	}
	return plan
}

// do carries out a step. It returns true when an available member goes because it
// was marked.
func (w *world) do(s pool.Step) (marked bool) {
	w.t.Helper()
	w.logf("%+v", s)
	if s.Action == pool.ActionCreate {
		w.add(s)
		return false
	}
	i := slices.IndexFunc(w.pool.Members, func(m pool.Member) bool { return m.Name == s.Name })
	if i < 0 {
		w.failf("no member for %+v", s)
	}
	m := &w.pool.Members[i]
	switch s.Action {
	case pool.ActionUpgrade:
		m.Version, m.Upgrading = w.pool.Version, true
	case pool.ActionMove:
		m.Domain = s.Domain
	case pool.ActionDeleteMachine, pool.ActionDeleteHostMachine:
		if strings.HasPrefix(s.Reason, "scaling down") && w.born[m.Name] == w.epoch {
			w.failf("%s was made and is surplus now, although nothing else is wanted", m.Name)
		}
		marked = m.Marked && m.Available && strings.HasPrefix(s.Reason, "scaling down")
		w.checkEvacuation(*m, s)
		m.Leaving, m.MachineLeaving = true, m.Machine
	case pool.ActionCreate:
	}
	return marked
}

// checkEvacuation fails when a member leaves its host for maintenance and there is
// no host for the one in its place.
func (w *world) checkEvacuation(m pool.Member, s pool.Step) {
	w.t.Helper()
	if !strings.Contains(s.Reason, "emptied") || !m.Claimed || m.Leaving {
		return
	}
	total, _ := w.counts()
	waiting := 0
	for _, other := range w.pool.Members {
		if other.HostMachine && !other.Leaving && !other.Claimed {
			waiting++
		}
	}
	if w.planned-(total-1)+waiting > w.free() {
		w.failf("%s leaves its host, and there is none for another one: %d members, %d wait, %d hosts are free", m.Name, total, waiting, w.free())
	}
}

// happen is one thing that happens to the pool by itself. Nothing breaks any more
// when calm.
func (w *world) happen(calm bool) {
	if len(w.pool.Members) == 0 {
		return
	}
	i := w.random.IntN(len(w.pool.Members))
	m := &w.pool.Members[i]
	switch {
	case m.Leaving:
		if m.Evacuate && m.Claimed {
			w.hosts--
		}
		w.pool.Members = slices.Delete(w.pool.Members, i, i+1)
	case !m.Claimed:
		m.Claimed = w.free() > 0
	case !m.Machine:
		m.Machine = true
	case m.Failed:
		// Remediation, or an operator, deletes it.
		m.Leaving, m.MachineLeaving = true, true
	case !m.Provisioned:
		m.Provisioned = true
		m.Failed = !calm && w.one(10)
	case m.Upgrading:
		m.Upgrading = false
	case !m.Available:
		m.Available = true
	case calm:
	case w.one(6):
		m.Available = false
	case w.one(10):
		m.Leaving, m.MachineLeaving = true, true
	case w.one(8):
		m.Marked = !m.Marked
	}
}

// want changes what is wanted of the pool.
func (w *world) want() {
	w.epoch++
	switch w.random.IntN(5) {
	case 0:
		w.pool.Desired = w.random.IntN(7)
	case 1:
		w.pool.Version = pick(w, []string{"v1", "v2", "v3"})
	case 2:
		w.pool.Revision = pick(w, []string{"r1", "r2"})
	case 3:
		w.pool.Stalled = !w.pool.Stalled
	case 4:
		for i := range w.pool.Members {
			w.pool.Members[i].Evacuate = w.pool.Members[i].Claimed && w.one(6)
		}
	}
	w.logf("want %d of %s %s, stalled %t", w.pool.Desired, w.pool.Version, w.pool.Revision, w.pool.Stalled)
}

// settle lets everything come to rest, with hosts enough, and returns the last plan.
func (w *world) settle() pool.Plan {
	w.t.Helper()
	w.pool.Stalled = false
	w.hosts += 8
	quiet := 0
	for range 5000 {
		w.happen(true)
		plan := w.reconcile(true)
		if len(plan.Steps) > 0 {
			quiet = 0
		}
		if quiet++; quiet > 300 {
			return plan
		}
	}
	w.failf("it never comes to rest")
	return pool.Plan{}
}

// Whatever happens, a plan keeps its promises (doc.go), and when nothing happens any
// more, the pool comes to rest with the right size, all members available and, but
// for OnDelete, up to date.
func TestPromises(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, seed)
		for range 150 {
			switch {
			case w.one(12):
				w.want()
			case w.one(3):
				w.reconcile(w.one(2))
			default:
				w.happen(false)
			}
		}
		plan := w.settle()
		total, available := w.counts()
		if total != plan.Desired || available != total {
			w.failf("%d members, %d available, %d desired: %+v", total, available, plan.Desired, plan)
		}
		if stuck := w.stuck(); stuck > 0 {
			w.failf("%d outdated members remain: %+v", stuck, plan)
		}
	}
}

// stuck counts the members that should have been replaced.
func (w *world) stuck() int {
	n := 0
	for _, m := range w.pool.Members {
		outdated := m.Version != w.pool.Version || m.Revision != w.pool.Revision
		switch {
		case m.Evacuate && w.free() == 0:
		case m.Evacuate, outdated && w.pool.Strategy.Type != infrav1.RolloutTypeOnDelete:
			n++
		}
	}
	return n
}

// A pool that is as wanted needs nothing, whatever its marks and however many hosts
// are free.
func TestFixedPoint(t *testing.T) {
	for n := range 6 {
		seen := pool.Pool{Desired: n, Version: newVersion, Revision: revision, Strategy: rolling(2, 1), FreeHosts: n % 3}
		for i := range n {
			seen.Members = append(seen.Members, running(fmt.Sprint(i), i, func(m *pool.Member) { m.Marked, m.Available = i%2 == 0, i%3 == 0 }))
		}
		if plan := pool.MakePlan(seen); len(plan.Steps) > 0 || len(plan.Holds) > 0 || plan.Pause != (pool.Pause{}) {
			t.Errorf("plan = %+v", plan)
		}
	}
}
