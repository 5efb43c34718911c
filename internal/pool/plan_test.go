package pool_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

const (
	oldVersion = "v1.35.4"
	newVersion = "v1.36.3"
	revision   = "r1"
)

func at(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }

type change = func(*pool.Member)

// running is an up-to-date member that has all a member can have.
func running(name string, minute int, changes ...change) pool.Member {
	m := pool.Member{
		Name: name, HostMachine: true, Machine: true, Claimed: true, Provisioned: true, Available: true, Upgradable: true,
		Version: newVersion, Revision: revision, Created: at(minute),
	}
	for _, c := range changes {
		c(&m)
	}
	return m
}

func old(m *pool.Member)          { m.Version = oldVersion }
func otherContent(m *pool.Member) { m.Revision = "r0" }
func down(m *pool.Member)         { m.Available = false }
func unplaced(m *pool.Member)     { m.Claimed, m.Provisioned, m.Available = false, false, false }
func booting(m *pool.Member)      { m.Provisioned, m.Available = false, false }
func failed(m *pool.Member)       { booting(m); m.Failed = true }
func marked(m *pool.Member)       { m.Marked = true }
func leaving(m *pool.Member)      { m.Leaving, m.MachineLeaving = true, true }
func noMachine(m *pool.Member)    { m.Machine = false }
func in(domain string) change     { return func(m *pool.Member) { m.Domain = domain } }
func replacesA(m *pool.Member)    { m.Replaces = "a" }
func evacuated(m *pool.Member)    { m.Evacuate = true }

func members(m ...pool.Member) []pool.Member { return m }

func rolling(surge, unavailable int) pool.Strategy {
	return pool.Strategy{Type: infrav1.RolloutTypeRollingUpdate, MaxSurge: surge, MaxUnavailable: unavailable,
		DeletePolicy: infrav1.DeletePolicyNewest, NoSpareHost: infrav1.NoSpareHostWait}
}

func with(s pool.Strategy, c func(*pool.Strategy)) pool.Strategy { c(&s); return s }

// brief writes steps as "Create", "Create@rack", "DeleteMachine a", "Move a@rack".
func brief(p pool.Plan) string {
	parts := make([]string, 0, len(p.Steps))
	for _, s := range p.Steps {
		text := string(s.Action)
		if s.Name != "" {
			text += " " + s.Name
		}
		if s.Domain != "" {
			text += "@" + s.Domain
		}
		if s.Replaces != "" {
			text += " for " + s.Replaces
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

type planTest struct {
	desired  int
	members  []pool.Member
	strategy pool.Strategy
	mutate   func(*pool.Pool)
	// want are the steps; hold and pause are parts of the messages.
	want, hold, pause string
}

func (tc planTest) run(t *testing.T) {
	t.Helper()
	seen := pool.Pool{Desired: tc.desired, Version: newVersion, Revision: revision, Strategy: tc.strategy, FreeHosts: 10, Members: tc.members}
	if seen.Strategy == (pool.Strategy{}) {
		seen.Strategy = rolling(1, 0)
	}
	if tc.mutate != nil {
		tc.mutate(&seen)
	}
	plan := pool.MakePlan(seen)
	if got := brief(plan); got != tc.want {
		t.Errorf("steps = %s\nwant    %s\nplan    %+v", got, tc.want, plan)
	}
	if got := strings.Join(plan.Holds, "; "); (tc.hold == "") != (got == "") || !strings.Contains(got, tc.hold) {
		t.Errorf("holds = %q, want %q", got, tc.hold)
	}
	if (tc.pause == "") != (plan.Pause == pool.Pause{}) || !strings.Contains(plan.Pause.Message, tc.pause) {
		t.Errorf("pause = %+v, want %q", plan.Pause, tc.pause)
	}
	for _, s := range plan.Steps {
		if s.Reason == "" {
			t.Errorf("%+v has no reason", s)
		}
	}
}

func TestSize(t *testing.T) {
	for name, tc := range map[string]planTest{
		"empty pool":                     {desired: 0},
		"from zero":                      {desired: 3, want: "Create, Create, Create"},
		"right size":                     {desired: 2, members: members(running("a", 0), running("b", 1))},
		"newest first":                   {desired: 1, members: members(running("a", 0), running("b", 2), running("c", 1)), want: "DeleteMachine b, DeleteMachine c"},
		"oldest first":                   {desired: 1, strategy: with(rolling(1, 0), oldest), members: members(running("a", 0), running("b", 2), running("c", 1)), want: "DeleteMachine a, DeleteMachine c"},
		"random, but always the same":    {desired: 1, strategy: with(rolling(1, 0), random), members: members(running("a", 0), running("b", 2), running("c", 1)), want: "DeleteMachine a, DeleteMachine c"},
		"name decides at last":           {desired: 1, members: members(running("b", 0), running("a", 0)), want: "DeleteMachine a"},
		"marked first":                   {desired: 1, members: members(running("a", 0, marked), running("b", 1, down)), want: "DeleteMachine a"},
		"a mark alone deletes nothing":   {desired: 2, members: members(running("a", 0, marked), running("b", 1))},
		"unplaced before booting":        {desired: 1, members: members(running("a", 1, booting), running("b", 0, unplaced)), want: "DeleteMachine b"},
		"booting before down":            {desired: 1, members: members(running("a", 1, down), running("b", 0, booting)), want: "DeleteMachine b"},
		"down before available":          {desired: 1, members: members(running("a", 1), running("b", 0, down)), want: "DeleteMachine b"},
		"nothing to drain":               {desired: 0, members: members(running("a", 0, noMachine, booting)), want: "DeleteHostMachine a"},
		"leaving is replaced at once":    {desired: 1, members: members(running("a", 0, leaving)), want: "Create"},
		"leaving is not deleted again":   {desired: 0, members: members(running("a", 0, leaving))},
		"Machine follows HostMachine":    {desired: 0, members: members(running("a", 0, func(m *pool.Member) { m.Leaving = true })), want: "DeleteMachine a"},
		"HostMachine is gone":            {desired: 1, members: members(running("a", 0), pool.Member{Name: "b", Machine: true}), want: "DeleteMachine b"},
		"HostMachine and Machine gone":   {desired: 1, members: members(running("a", 0), pool.Member{Name: "b", Machine: true, MachineLeaving: true, Leaving: true})},
		"no bootstrap data yet":          {desired: 2, mutate: unknown, hold: "2 machines wait for the bootstrap data"},
		"shrinks without it":             {desired: 1, members: members(running("a", 0), running("b", 1)), mutate: unknown, want: "DeleteMachine b"},
		"a deleted pool empties at once": {desired: 0, members: members(running("a", 0, old), running("b", 1)), want: "DeleteMachine a, DeleteMachine b"},
	} {
		t.Run(name, tc.run)
	}
}

func oldest(s *pool.Strategy)   { s.DeletePolicy = infrav1.DeletePolicyOldest }
func random(s *pool.Strategy)   { s.DeletePolicy = infrav1.DeletePolicyRandom }
func unknown(p *pool.Pool)      { p.Revision = "" }
func onDelete(s *pool.Strategy) { s.Type = infrav1.RolloutTypeOnDelete }
func noSpare(s *pool.Strategy)  { s.NoSpareHost = infrav1.NoSpareHostInPlace }

func TestRollingUpdate(t *testing.T) {
	threeOld := members(running("a", 0, old), running("b", 1, old), running("c", 2, old))
	plus := func(m ...pool.Member) []pool.Member { return append(threeOld[:3:3], m...) }
	for name, tc := range map[string]planTest{
		"surge first":             {desired: 3, members: threeOld, want: "Create"},
		"waits for the new one":   {desired: 3, members: plus(running("d", 3, booting)), hold: "waiting for 1 updated machines to become available (d)"},
		"waits for its host":      {desired: 3, members: plus(running("d", 3, unplaced)), hold: "1 updated machines to get a host (d)"},
		"then one goes":           {desired: 3, members: plus(running("d", 3)), want: "DeleteMachine c, Create"},
		"another bootstrap":       {desired: 1, members: members(running("a", 0, otherContent)), want: "Create"},
		"last one":                {desired: 1, members: members(running("a", 0, old), running("b", 1)), want: "DeleteMachine a"},
		"unavailable allowed":     {desired: 3, strategy: rolling(0, 1), members: threeOld, want: "DeleteMachine c, Create", hold: "more than 2 of 3"},
		"unavailable first":       {desired: 3, strategy: rolling(0, 1), members: members(running("a", 0, old), running("b", 1, old, down), running("c", 2, old)), want: "DeleteMachine b, Create", hold: "more than 2 of 3"},
		"marked old one first":    {desired: 3, strategy: rolling(0, 1), members: members(running("a", 0, old, marked), running("b", 1, old), running("c", 2, old)), want: "DeleteMachine a, Create", hold: "more than 2 of 3"},
		"without host at once":    {desired: 2, members: members(running("a", 0, old, unplaced), running("b", 0, old, unplaced)), want: "DeleteMachine a, DeleteMachine b, Create, Create"},
		"drain needs a Machine":   {desired: 1, members: members(running("a", 0, old, noMachine), running("b", 1)), hold: "has not made the Machines yet that are needed to drain a"},
		"scaled up meanwhile":     {desired: 5, members: threeOld, want: "Create, Create, Create", hold: "more than 3 of 5"},
		"scaled down meanwhile":   {desired: 1, members: plus(running("d", 3, booting)), want: "DeleteMachine d, DeleteMachine c, DeleteMachine b, Create"},
		"rolled back":             {desired: 3, members: members(running("a", 0), running("b", 1), running("c", 2), running("d", 3, old)), want: "DeleteMachine d"},
		"on delete":               {desired: 3, strategy: with(rolling(1, 0), onDelete), members: threeOld, hold: "3 outdated machines wait to be deleted"},
		"on delete, one deleted":  {desired: 3, strategy: with(rolling(1, 0), onDelete), members: members(threeOld[0], threeOld[1], running("c", 2, old, leaving)), want: "Create", hold: "2 outdated"},
		"failed":                  {desired: 3, members: plus(running("d", 3, failed)), pause: "1 updated machines failed (d)"},
		"failed old one":          {desired: 1, members: members(running("a", 0, old, failed)), want: "Create", hold: "more than 0 of 1"},
		"failed, size is kept":    {desired: 3, members: members(threeOld[0], running("d", 3, failed)), want: "Create", pause: "failed (d)"},
		"stalled":                 {desired: 3, members: plus(running("d", 3, booting)), mutate: func(p *pool.Pool) { p.Stalled = true }, pause: "1 machines are not available (d)"},
		"stalled without rollout": {desired: 1, members: members(running("a", 0, booting)), mutate: func(p *pool.Pool) { p.Stalled = true }},
		"unknown of what":         {desired: 3, members: threeOld, mutate: unknown},
	} {
		t.Run(name, tc.run)
	}
}

func TestInPlace(t *testing.T) {
	inPlace := with(rolling(0, 1), func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeInPlace })
	fallBack := with(rolling(1, 1), noSpare)
	lacking := func(m *pool.Member) { old(m); m.Upgradable = false }
	full := func(p *pool.Pool) { p.FreeHosts = 0 }
	for name, tc := range map[string]planTest{
		"one at a time":          {desired: 2, strategy: inPlace, members: members(running("a", 0, old), running("b", 1, old)), want: "Upgrade b", hold: "waiting for 1 updated machines to become available (b)"},
		"upgrading is not there": {desired: 2, strategy: inPlace, members: members(running("a", 0, old), running("b", 1, upgrading)), hold: "waiting for 1 updated machines to become available (b)"},
		"next":                   {desired: 2, strategy: inPlace, members: members(running("a", 0, old), running("b", 1)), want: "Upgrade a"},
		"two at a time":          {desired: 3, strategy: with(inPlace, func(s *pool.Strategy) { s.MaxUnavailable = 2 }), members: members(running("a", 0, old), running("b", 1, old), running("c", 2, old)), want: "Upgrade c, Upgrade b", hold: "2 updated machines"},
		"more than the version":  {desired: 2, strategy: inPlace, members: members(running("a", 0, old, otherContent), running("b", 1, old, otherContent)), want: "DeleteMachine b, Create", hold: "more than 1 of 2"},
		"version not installed":  {desired: 2, strategy: inPlace, members: members(running("a", 0, lacking), running("b", 1, old)), want: "Upgrade b", hold: "the hosts of 1 machines do not offer v1.36.3 (a)"},
		"upgrade failed":         {desired: 2, strategy: inPlace, members: members(running("a", 0, old), running("b", 1, failed, upgrading)), pause: "failed (b)"},
		"fall-back":              {desired: 2, strategy: fallBack, mutate: full, members: members(running("a", 0, old), running("b", 1, old)), want: "Upgrade b", hold: "(b)"},
		"spare host":             {desired: 2, strategy: with(fallBack, func(s *pool.Strategy) { s.MaxUnavailable = 0 }), members: members(running("a", 0, old), running("b", 1, old)), want: "Create"},
		"waits for its host": {desired: 1, strategy: with(fallBack, func(s *pool.Strategy) { s.MaxUnavailable = 2 }), mutate: full,
			members: members(running("a", 0, old), running("b", 1, unplaced)), want: "DeleteMachine a"},
	} {
		t.Run(name, tc.run)
	}
}

func TestSpread(t *testing.T) {
	racks := func(free ...int) func(*pool.Pool) {
		return func(p *pool.Pool) {
			for i, n := range free {
				p.Domains = append(p.Domains, pool.Domain{Name: string(rune('x' + i)), Free: n})
			}
		}
	}
	hard := func(free ...int) func(*pool.Pool) {
		return func(p *pool.Pool) { racks(free...)(p); p.HardSpread = true }
	}
	for name, tc := range map[string]planTest{
		"evenly":                     {desired: 4, mutate: racks(2, 2, 2), want: "Create@x, Create@y, Create@z, Create@x"},
		"most free hosts of equals":  {desired: 1, mutate: racks(1, 3, 2), want: "Create@y"},
		"the emptiest":               {desired: 3, mutate: racks(5, 1), members: members(running("a", 0, in("x")), running("b", 0, in("x"))), want: "Create@y"},
		"soft takes what is free":    {desired: 3, mutate: racks(5, 0), members: members(running("a", 0, in("x")), running("b", 0, in("x"))), want: "Create@x"},
		"hard waits":                 {desired: 3, mutate: hard(5, 0), members: members(running("a", 0, in("x")), running("b", 0, in("x"))), want: "Create@y"},
		"shrinks where it is full":   {desired: 3, mutate: racks(1, 1), members: members(running("a", 0, in("x")), running("b", 9, in("y")), running("c", 1, in("x")), running("d", 2, in("x"))), want: "DeleteMachine d"},
		"and then again":             {desired: 1, mutate: racks(1, 1), members: members(running("a", 0, in("x")), running("b", 9, in("y")), running("c", 1, in("x")), running("d", 2, in("x"))), want: "DeleteMachine d, DeleteMachine c, DeleteMachine b"},
		"outdated ones do not count": {desired: 2, mutate: racks(1, 1), members: members(running("a", 0, in("x"), old), running("b", 0, in("y"))), want: "Create@x"},
		"no domains":                 {desired: 1, want: "Create"},
		"hard, the domain filled up": {desired: 2, mutate: hard(0, 1), members: members(running("a", 0, in("x")), running("b", 0, in("x"), unplaced)), want: "Move b@y"},
		"hard, the domain is gone":   {desired: 1, mutate: hard(1), members: members(running("b", 0, in("q"), unplaced)), want: "Move b@x"},
		"hard, would be uneven":      {desired: 2, mutate: hard(0, 1), members: members(running("a", 0, in("y")), running("b", 0, in("x"), unplaced))},
		"soft needs no other domain": {desired: 2, mutate: racks(0, 1), members: members(running("a", 0, in("x")), running("b", 0, in("x"), unplaced))},
	} {
		t.Run(name, tc.run)
	}
}

// A host that a hard spread does not allow is no spare.
func TestReplacements(t *testing.T) {
	of := func(hard bool, members []pool.Member, free ...int) pool.Pool {
		p := pool.Pool{Desired: len(members), Version: newVersion, Revision: revision, Strategy: rolling(1, 0), HardSpread: hard, Members: members}
		for i, n := range free {
			p.Domains = append(p.Domains, pool.Domain{Name: string(rune('x' + i)), Free: n})
		}
		return p
	}
	pair := members(running("a", 0, in("x")), running("b", 0, in("y")))
	for name, tc := range map[string]struct {
		pool   pool.Pool
		member string
		want   pool.Domain
	}{
		"its own domain":                   {of(true, pair, 0, 3), "a", pool.Domain{Name: "x"}},
		"the other one":                    {of(true, pair, 0, 3), "b", pool.Domain{Name: "y", Free: 3}},
		"the emptiest":                     {of(true, pair, 0, 3, 1), "a", pool.Domain{Name: "z", Free: 1}},
		"of equals, where a host is free":  {of(true, pair, 0, 3, 0), "b", pool.Domain{Name: "y", Free: 3}},
		"another member waits for that":    {of(true, append(members(running("c", 0, in("x"), unplaced), running("d", 0, in("y"))), pair...), 1, 1), "a", pool.Domain{Name: "x"}},
		"it waits itself for its own host": {of(true, members(running("a", 0, in("x"), unplaced), running("b", 0, in("y"))), 1, 1), "a", pool.Domain{Name: "x", Free: 1}},
	} {
		replacement := pool.Replacements(tc.pool)
		for range 2 { // it leaves no trace
			if got := replacement(tc.member); got != tc.want {
				t.Errorf("%s: %+v, want %+v", name, got, tc.want)
			}
		}
	}
	if pool.Replacements(of(false, pair, 0, 3)) != nil || pool.Replacements(of(true, pair)) != nil {
		t.Error("a domain is asked for where any will do")
	}
}

func TestExternalSize(t *testing.T) {
	external := func(p *pool.Pool) { p.External = true }
	for name, tc := range map[string]planTest{
		"not filled":        {desired: 9, mutate: external, members: members(running("a", 0))},
		"not shrunk":        {desired: 0, mutate: external, members: members(running("a", 0))},
		"one for one":       {desired: 9, mutate: external, members: members(running("a", 0, old), running("b", 1, old)), want: "Create for b", hold: ""},
		"waits":             {mutate: external, members: members(running("a", 0, old), running("b", 1, booting, replacesA))},
		"the replaced goes": {mutate: external, members: members(running("a", 0, old), running("b", 1, replacesA), running("c", 2, old)), want: "DeleteMachine a, Create for c"},
		"not another":       {mutate: external, members: members(running("a", 0, old, leaving), running("b", 1, replacesA))},
		"replacement is outdated too, and down": {mutate: external, members: members(running("a", 0, old), running("b", 1, otherContent, down, replacesA)),
			want: "DeleteMachine b, Create for a"},
		"unplaced is replaced, not dropped": {mutate: external, members: members(running("a", 0, old, unplaced)), want: "Create for a"},
	} {
		t.Run(name, tc.run)
	}
}

func upgrading(m *pool.Member) { m.Upgrading = true }

func TestCounts(t *testing.T) {
	plan := pool.MakePlan(pool.Pool{Desired: 4, Version: newVersion, Revision: revision, Strategy: rolling(1, 0), Members: members(
		running("a", 0), running("b", 0, down), running("c", 0, old), running("d", 0, otherContent), running("e", 0, leaving), running("f", 0, upgrading),
	)})
	if plan.Updated != 2 || plan.UpdatedAvailable != 1 || plan.Outdated != 3 || plan.Available != 3 || plan.Leaving != 1 {
		t.Errorf("plan = %+v", plan)
	}
	want := []string{"1 of a host that is changing to version v1.36.3", "1 of revision r0, wanted r1", "1 of version v1.35.4, wanted v1.36.3"}
	if !reflect.DeepEqual(plan.Differences, want) {
		t.Errorf("differences = %q, want %q", plan.Differences, want)
	}
}

func TestReasonNamesTheDifference(t *testing.T) {
	plan := pool.MakePlan(pool.Pool{Desired: 1, Version: newVersion, Revision: revision, Strategy: rolling(1, 0), Members: members(
		running("a", 0, old, otherContent), running("b", 0),
	)})
	if want := "version v1.35.4, wanted v1.36.3; revision r0, wanted r1"; len(plan.Steps) != 1 || plan.Steps[0].Reason != want {
		t.Errorf("steps = %+v, want reason %q", plan.Steps, want)
	}
}

func BenchmarkMake(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		seen := pool.Pool{Desired: n, Version: newVersion, Revision: revision, Strategy: rolling(n/10, n/10), FreeHosts: n,
			Domains: []pool.Domain{{Name: "x", Free: n}, {Name: "y", Free: n}, {Name: "z", Free: n}}}
		for i := range n {
			m := running(fmt.Sprintf("workers-%05d", i), i, in(string(rune('x'+i%3))))
			if i%2 == 0 {
				m.Version = oldVersion
			}
			seen.Members = append(seen.Members, m)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pool.MakePlan(seen)
			}
		})
	}
}

func TestStrategy(t *testing.T) {
	plain := rolling(1, 0)
	for name, tc := range map[string]struct {
		spec    infrav1.HostMachinePoolStrategy
		desired int
		want    pool.Strategy
	}{
		"defaults":          {infrav1.HostMachinePoolStrategy{}, 10, plain},
		"in place":          {infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace}, 10, with(rolling(0, 1), func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeInPlace })},
		"rounded":           {infrav1.HostMachinePoolStrategy{MaxSurge: ofPool("25%"), MaxUnavailable: ofPool("25%")}, 10, rolling(3, 2)},
		"both rounded to 0": {infrav1.HostMachinePoolStrategy{MaxSurge: ofPool("0%"), MaxUnavailable: ofPool("25%")}, 3, rolling(0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pool.NewStrategy(tc.spec, tc.desired)
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	if _, err := pool.NewStrategy(infrav1.HostMachinePoolStrategy{MaxSurge: ofPool("many")}, 1); err == nil || !strings.Contains(err.Error(), "spec.strategy.maxSurge") {
		t.Errorf("err = %v", err)
	}
	if got := pool.ProgressDeadline(infrav1.HostMachinePoolStrategy{}); got != 30*time.Minute {
		t.Errorf("deadline = %s", got)
	}
}

func ofPool(percentage string) *intstr.IntOrString { return ptr.To(intstr.FromString(percentage)) }

// While something holds the rollout, the size is kept and nothing is replaced.
func TestHold(t *testing.T) {
	hold := func(p *pool.Pool) { p.Hold = "not now" }
	for name, tc := range map[string]planTest{
		"outdated":      {desired: 2, members: members(running("a", 0, old), running("b", 1)), mutate: hold, hold: "not now"},
		"never placed":  {desired: 1, members: members(running("a", 0, old, unplaced)), mutate: hold, hold: "not now"},
		"in place":      {desired: 1, members: members(running("a", 0, old)), strategy: with(rolling(0, 1), func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeInPlace }), mutate: hold, hold: "not now"},
		"size":          {desired: 2, members: members(running("a", 0, old)), mutate: hold, hold: "not now", want: "Create"},
		"nothing to do": {desired: 1, members: members(running("a", 0)), mutate: hold},
		"under way yet": {desired: 1, members: members(running("a", 0, old), running("b", 1, booting)), mutate: hold, hold: "not now"},
	} {
		t.Run(name, tc.run)
	}
}

// A host that is to be emptied: its member goes as an outdated one does, but never
// before there is another host.
func TestEvacuation(t *testing.T) {
	free := func(n int) func(*pool.Pool) { return func(p *pool.Pool) { p.FreeHosts = n } }
	onDelete := func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeOnDelete }
	inPlace := func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeInPlace }
	pair := members(running("a", 0, evacuated), running("b", 1))
	grown := func(c ...change) []pool.Member { return append(members(running("c", 2, c...)), pair...) }
	const noHost = "no other host is free"
	for name, tc := range map[string]planTest{
		"another host takes over first": {desired: 2, members: pair, mutate: free(1), want: "Create"},
		"no other host":                 {desired: 2, members: pair, mutate: free(0), hold: noHost},
		"the other one gets a host":     {desired: 2, members: grown(unplaced), mutate: free(1), hold: "to get a host (c)"},
		"the other one boots":           {desired: 2, members: grown(booting), mutate: free(0), hold: "become available (c)"},
		"the other one is available":    {desired: 2, members: grown(), mutate: free(0), want: "DeleteMachine a"},
		"not needed any more":           {desired: 2, members: members(running("a", 0), running("b", 1), running("c", 2, unplaced)), want: "DeleteMachine c"},
		"goes first when one is to go":  {desired: 1, members: pair, mutate: free(0), strategy: rolling(0, 1), want: "DeleteMachine a"},
		"no surge":                      {desired: 2, members: pair, mutate: free(1), strategy: rolling(0, 1), want: "DeleteMachine a, Create"},
		"no surge and no other host":    {desired: 2, members: pair, mutate: free(0), strategy: rolling(0, 1), hold: noHost},
		"two, one host": {desired: 2, members: members(running("a", 0, evacuated), running("b", 1, evacuated)), mutate: free(1), strategy: rolling(0, 2),
			want: "DeleteMachine b, Create", hold: noHost},
		"on delete":             {desired: 2, members: members(running("a", 0, evacuated), running("b", 1, old)), mutate: free(1), strategy: with(rolling(1, 0), onDelete), want: "Create", hold: "1 outdated machines wait"},
		"never in place":        {desired: 2, members: members(running("a", 0, evacuated, old), running("b", 1)), mutate: free(1), strategy: with(rolling(0, 1), inPlace), want: "DeleteMachine a, Create"},
		"bootstrap not known":   {desired: 2, members: pair, mutate: func(p *pool.Pool) { p.Revision = "" }},
		"size of somebody else": {desired: 2, members: pair, mutate: func(p *pool.Pool) { p.External, p.FreeHosts = true, 1 }, want: "Create for a"},
	} {
		t.Run(name, tc.run)
	}
}

// Who runs workload is drained through a Machine, which core makes for every member: until
// then it is not surplus. Nobody makes one for a pool that is being deleted.
func TestSurplusWaitsForItsMachine(t *testing.T) {
	seen := pool.Pool{Desired: 1, Version: newVersion, Revision: revision, Strategy: rolling(1, 0),
		Members: members(running("a", 1), running("b", 2, noMachine, down))}
	p := pool.MakePlan(seen)
	if len(p.Steps) != 0 || !strings.Contains(strings.Join(p.Holds, " "), "needed to drain b") {
		t.Errorf("steps %+v, holds %q", p.Steps, p.Holds)
	}
	seen.Members[1].Machine = true
	if p = pool.MakePlan(seen); len(p.Steps) != 1 || p.Steps[0].Action != pool.ActionDeleteMachine || p.Steps[0].Name != "b" {
		t.Errorf("steps %+v", p.Steps)
	}
	seen.Members[1] = running("b", 2, noMachine, booting)
	if p = pool.MakePlan(seen); len(p.Steps) != 1 || p.Steps[0].Action != pool.ActionDeleteHostMachine {
		t.Errorf("one that runs nothing yet: steps %+v", p.Steps)
	}
	seen.Members[1], seen.Deleting, seen.Desired = running("b", 2, noMachine), true, 0
	if p = pool.MakePlan(seen); len(p.Steps) != 2 {
		t.Errorf("a pool that is being deleted: steps %+v", p.Steps)
	}
}

// A pool that leaves, or whose Cluster does, only becomes smaller: no member is made, replaced,
// upgraded or moved.
func TestFrozenPoolOnlyShrinks(t *testing.T) {
	inPlace := func(s *pool.Strategy) { s.Type = infrav1.RolloutTypeInPlace }
	outdated := members(running("a", 0, old), running("b", 1, old, evacuated))
	for name, tc := range map[string]planTest{
		"too small":             {desired: 3, members: members(running("a", 0))},
		"outdated":              {desired: 2, members: outdated},
		"outdated, in place":    {desired: 2, members: outdated, strategy: with(rolling(0, 1), inPlace)},
		"outdated, no surge":    {desired: 2, members: outdated, strategy: rolling(0, 1)},
		"never placed":          {desired: 2, members: members(running("a", 0), running("b", 1, old, unplaced))},
		"too large":             {desired: 1, members: members(running("a", 0), running("b", 1)), want: "DeleteMachine b"},
		"size of somebody else": {desired: 2, members: outdated, mutate: func(p *pool.Pool) { p.External, p.FreeHosts = true, 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			change := tc.mutate
			tc.hold = "Cluster c is being deleted: no machine is added, replaced or upgraded"
			tc.mutate = func(p *pool.Pool) {
				if p.Frozen = "Cluster c is being deleted"; change != nil {
					change(p)
				}
			}
			tc.run(t)
		})
	}
}
