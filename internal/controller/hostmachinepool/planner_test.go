package hostmachinepool

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestMakePlan(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	running := func(name string, minute int) member {
		return member{name: name, hostMachine: true, machine: true, claimed: true, provisioned: true, ready: true, created: at(minute)}
	}
	with := func(m member, change func(*member)) member { change(&m); return m }
	for name, tc := range map[string]struct {
		desired int
		members []member
		want    plan
	}{
		"empty pool":           {0, nil, plan{}},
		"from zero":            {3, nil, plan{create: 3}},
		"right size":           {2, []member{running("a", 0), running("b", 1)}, plan{}},
		"newest first":         {1, []member{running("a", 0), running("b", 2), running("c", 1)}, plan{deleteMachines: []string{"b", "c"}}},
		"name decides at last": {1, []member{running("b", 0), running("a", 0)}, plan{deleteMachines: []string{"a"}}},
		"marked first": {1, []member{with(running("a", 0), func(m *member) { m.marked = true }), running("b", 1)},
			plan{deleteMachines: []string{"a"}}},
		"without host before not provisioned": {1, []member{
			with(running("a", 1), func(m *member) { m.provisioned, m.ready = false, false }),
			with(running("b", 0), func(m *member) { m.claimed, m.provisioned, m.ready = false, false, false }),
		}, plan{deleteMachines: []string{"b"}}},
		"not provisioned before not ready": {1, []member{
			with(running("a", 1), func(m *member) { m.ready = false }),
			with(running("b", 0), func(m *member) { m.provisioned, m.ready = false, false }),
		}, plan{deleteMachines: []string{"b"}}},
		"not ready before ready": {1, []member{running("a", 1), with(running("b", 0), func(m *member) { m.ready = false })},
			plan{deleteMachines: []string{"b"}}},
		"without Machine nothing drains": {0, []member{with(running("a", 0), func(m *member) { m.machine = false })},
			plan{deleteHostMachines: []string{"a"}}},
		"leaving is replaced at once": {1, []member{with(running("a", 0), func(m *member) { m.leaving, m.machineLeaving = true, true })},
			plan{create: 1}},
		"leaving is not deleted again": {0, []member{with(running("a", 0), func(m *member) { m.leaving, m.machineLeaving = true, true })},
			plan{}},
		"the Machine of a leaving HostMachine follows": {0, []member{with(running("a", 0), func(m *member) { m.leaving = true })},
			plan{deleteMachines: []string{"a"}}},
		"a Machine whose HostMachine is gone": {1, []member{running("a", 0), {name: "b", machine: true}},
			plan{deleteMachines: []string{"b"}}},
		"a leaving Machine whose HostMachine is gone": {1, []member{running("a", 0), {name: "b", machine: true, machineLeaving: true, leaving: true}},
			plan{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := makePlan(tc.desired, tc.members); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("plan = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Whatever the pool, a plan that is carried out leads to the desired size, and the
// next plan is empty: pools never oscillate.
func TestPlansSettle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		members := make([]member, random.IntN(12))
		for i := range members {
			flip := func() bool { return random.IntN(2) == 0 }
			m := member{name: string(rune('a' + i)), hostMachine: random.IntN(6) > 0, machine: flip(), marked: flip(), claimed: flip(), provisioned: flip(), ready: flip()}
			m.machine = m.machine || !m.hostMachine
			m.machineLeaving = m.machine && flip()
			m.leaving = m.machineLeaving || (m.hostMachine && random.IntN(4) == 0)
			members[i] = m
		}
		desired := random.IntN(12)
		shuffled := append([]member(nil), members...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		first := makePlan(desired, members)
		if other := makePlan(desired, shuffled); !reflect.DeepEqual(first, other) {
			t.Fatalf("the plan depends on the order of the members: %+v, %+v", first, other)
		}
		after, staying := carryOut(first, members)
		if second := makePlan(desired, after); !second.empty() {
			t.Fatalf("desired %d, %+v: after %+v still %+v", desired, members, first, second)
		}
		if staying != desired {
			t.Fatalf("desired %d, got %d from %+v with %+v", desired, staying, members, first)
		}
	}
}

func carryOut(p plan, members []member) (after []member, staying int) {
	gone := map[string]bool{}
	for _, name := range append(p.deleteMachines, p.deleteHostMachines...) {
		gone[name] = true
	}
	for _, m := range members {
		if gone[m.name] {
			m.leaving, m.machineLeaving = true, m.machine
		}
		after = append(after, m)
	}
	for range p.create {
		after = append(after, member{name: "new", hostMachine: true})
	}
	for _, m := range after {
		if m.hostMachine && !m.leaving {
			staying++
		}
	}
	return after, staying
}
