package remediation_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/remediation"
)

const (
	reboot      = infrav1.RemediationReboot
	rebootstrap = infrav1.RemediationRebootstrap
	replace     = infrav1.RemediationReplace
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ladder(maxInFlight int, actions ...infrav1.RemediationAction) remediation.Policy {
	p := remediation.Policy{MaxInFlight: maxInFlight, MinHealthyPeriod: time.Hour}
	for _, action := range actions {
		p.Steps = append(p.Steps, remediation.Step{Action: action, Timeout: 10 * time.Minute})
	}
	return p
}

// running is a healthy machine on a connected host.
func running(name string, change ...func(*remediation.Member)) remediation.Member {
	m := remediation.Member{Name: name, Created: now.Add(-time.Hour), Health: remediation.Healthy, Claimed: true, Provisioned: true, Connected: true}
	for _, c := range change {
		c(&m)
	}
	return m
}

func unhealthy(m *remediation.Member) { m.Health = remediation.Unhealthy }
func failing(m *remediation.Member)   { m.Health = remediation.Failing }
func offline(m *remediation.Member)   { m.Connected = false }
func leaving(m *remediation.Member)   { m.Leaving = true }
func skipped(m *remediation.Member)   { m.Skipped = true }
func hostless(m *remediation.Member)  { m.Claimed, m.Provisioned, m.Connected = false, false, false }

func tried(step int, action infrav1.RemediationAction, ago time.Duration) func(*remediation.Member) {
	return func(m *remediation.Member) {
		m.Attempt = &remediation.Attempt{Step: step, Action: action, Since: now.Add(-ago)}
	}
}

// inPlaceOf is the machine that a rebootstrap made.
func inPlaceOf(ago time.Duration) func(*remediation.Member) {
	return func(m *remediation.Member) {
		tried(1, rebootstrap, ago)(m)
		m.Attempt.Replaces = "old"
	}
}

// TestOneMember looks at one machine beside another that is healthy.
func TestOneMember(t *testing.T) {
	all := ladder(1, reboot, rebootstrap, replace)
	for name, tc := range map[string]struct {
		policy  remediation.Policy
		member  remediation.Member
		spare   int
		kind    remediation.Kind
		action  infrav1.RemediationAction
		step    int
		message string
		after   time.Duration
	}{
		"healthy":                        {policy: all, member: running("m"), kind: remediation.Recovered},
		"no health check":                {policy: all, member: running("m", func(m *remediation.Member) { m.Health = remediation.Unknown }), kind: remediation.Recovered},
		"unhealthy":                      {policy: all, member: running("m", unhealthy), kind: remediation.Begin, action: reboot, after: 10 * time.Minute},
		"held back by the check":         {policy: all, member: running("m", failing), kind: remediation.Defer, message: "MachineHealthCheck"},
		"rebooting":                      {policy: all, member: running("m", unhealthy, tried(0, reboot, 4*time.Minute)), kind: remediation.Wait, after: 6 * time.Minute},
		"reboot did not help":            {policy: all, member: running("m", unhealthy, tried(0, reboot, 10*time.Minute)), kind: remediation.Begin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"reboot failed":                  {policy: all, member: running("m", unhealthy, tried(0, reboot, time.Second), func(m *remediation.Member) { m.RebootFailed = true }), kind: remediation.Begin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"reboot helped":                  {policy: all, member: running("m", tried(0, reboot, 20*time.Minute)), kind: remediation.Recovered, after: 40 * time.Minute},
		"unhealthy again soon":           {policy: all, member: running("m", unhealthy, tried(0, reboot, 50*time.Minute)), kind: remediation.Begin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"healthy for long":               {policy: all, member: running("m", tried(0, reboot, time.Hour)), kind: remediation.Forget},
		"offline, another is free":       {policy: all, member: running("m", unhealthy, offline), spare: 1, kind: remediation.Begin, action: replace, step: 2},
		"offline, no other is free":      {policy: all, member: running("m", unhealthy, offline), kind: remediation.Defer, message: "no other host is free", after: 30 * time.Second},
		"bootstrap failed":               {policy: all, member: running("m", unhealthy, func(m *remediation.Member) { m.Provisioned = false }), kind: remediation.Begin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"without host":                   {policy: all, member: running("m", unhealthy, hostless), spare: 1, kind: remediation.Defer, message: "no host yet"},
		"leaving by itself":              {policy: all, member: running("m", unhealthy, leaving), kind: remediation.None},
		"leaving after a reboot":         {policy: all, member: running("m", leaving, tried(0, reboot, time.Minute)), kind: remediation.None},
		"leaving to be replaced":         {policy: all, member: running("m", unhealthy, leaving, tried(2, replace, time.Minute)), kind: remediation.Wait},
		"leaving, to be made anew":       {policy: all, member: running("m", unhealthy, leaving, tried(1, rebootstrap, time.Minute)), kind: remediation.Pin},
		"leaving, was made anew":         {policy: all, member: running("m", unhealthy, leaving, tried(1, rebootstrap, time.Minute), func(m *remediation.Member) { m.Replaced = true }), kind: remediation.Wait},
		"made anew, waits for host":      {policy: all, member: running("m", hostless, inPlaceOf(4*time.Minute)), kind: remediation.Wait, after: 6 * time.Minute},
		"made anew, never comes up":      {policy: all, member: running("m", hostless, inPlaceOf(10*time.Minute)), spare: 1, kind: remediation.Begin, action: replace, step: 2},
		"made anew, no other is free":    {policy: all, member: running("m", hostless, inPlaceOf(10*time.Minute)), kind: remediation.Defer, message: "no other host is free", after: 30 * time.Second},
		"made anew, still unhealthy":     {policy: all, member: running("m", unhealthy, inPlaceOf(10*time.Minute)), kind: remediation.Begin, action: replace, step: 2},
		"killed before the deletion":     {policy: all, member: running("m", unhealthy, tried(2, replace, time.Hour)), kind: remediation.Begin, action: replace, step: 2},
		"recovered before it":            {policy: all, member: running("m", tried(2, replace, time.Minute)), kind: remediation.Recovered, after: 59 * time.Minute},
		"no step left":                   {policy: ladder(1, reboot), member: running("m", unhealthy, tried(0, reboot, time.Hour)), kind: remediation.GiveUp, message: "delete the Machine"},
		"no step possible":               {policy: ladder(1, reboot), member: running("m", unhealthy, offline), kind: remediation.GiveUp, message: "delete the Machine"},
		"turned off":                     {policy: ladder(0, replace), member: running("m", unhealthy), kind: remediation.Defer, message: "maxInFlight"},
		"replace only, connected":        {policy: ladder(1, replace), member: running("m", unhealthy), kind: remediation.Begin, action: replace},
		"skipped":                        {policy: all, member: running("m", unhealthy, skipped), kind: remediation.Defer, message: "skip-remediation"},
		"skipped, held back as well":     {policy: all, member: running("m", failing, skipped), kind: remediation.Defer, message: "skip-remediation"},
		"skipped, rebooting":             {policy: all, member: running("m", unhealthy, skipped, tried(0, reboot, 4*time.Minute)), kind: remediation.Defer, message: "skip-remediation", after: 6 * time.Minute},
		"skipped after a reboot":         {policy: all, member: running("m", unhealthy, skipped, tried(0, reboot, time.Hour)), kind: remediation.Defer, message: "skip-remediation"},
		"skipped before the deletion":    {policy: all, member: running("m", unhealthy, skipped, tried(2, replace, time.Hour)), kind: remediation.Defer, message: "skip-remediation"},
		"skipped, never comes up":        {policy: all, member: running("m", hostless, skipped, inPlaceOf(10*time.Minute)), spare: 1, kind: remediation.Defer, message: "skip-remediation"},
		"skipped, silent from the start": {policy: all, member: running("m", skipped, func(m *remediation.Member) { m.Provisioned, m.UnbegunSince = false, now.Add(-time.Hour) }), spare: 1, kind: remediation.Defer, message: "skip-remediation"},
		"skipped and healthy":            {policy: all, member: running("m", skipped), kind: remediation.Recovered},
		"skipped and leaving":            {policy: all, member: running("m", unhealthy, skipped, leaving, tried(1, rebootstrap, time.Minute)), kind: remediation.Pin},
		"step of a longer policy gone":   {policy: ladder(1, replace), member: running("m", unhealthy, tried(5, reboot, time.Second)), kind: remediation.GiveUp},
	} {
		t.Run(name, func(t *testing.T) {
			plan := remediation.Make(remediation.Input{
				Policy: tc.policy, Members: []remediation.Member{running("a"), tc.member}, SpareHosts: tc.spare, Now: now,
			})
			got := plan.Decisions[1]
			if got.Member != "m" || got.Kind != tc.kind || !strings.Contains(got.Message, tc.message) {
				t.Fatalf("decision = %+v, want %s: %s", got, tc.kind, tc.message)
			}
			if tc.kind == remediation.Begin && (got.Attempt.Action != tc.action || got.Attempt.Step != tc.step) {
				t.Errorf("attempt = %+v, want step %d, %s", got.Attempt, tc.step, tc.action)
			}
			if plan.After != tc.after {
				t.Errorf("plan again after %s, want %s", plan.After, tc.after)
			}
		})
	}
}

// A machine whose host fell silent before anything was begun there is given up for another
// host, whatever the steps are and without a MachineHealthCheck.
func TestSilentBeforeItBegan(t *testing.T) {
	unbegun := func(ago time.Duration) func(*remediation.Member) {
		return func(m *remediation.Member) {
			m.Health, m.Provisioned, m.Connected, m.UnbegunSince = remediation.Unknown, false, false, now.Add(-ago)
		}
	}
	busy := running("b", unhealthy, tried(0, reboot, time.Minute))
	for name, tc := range map[string]struct {
		member  remediation.Member
		beside  remediation.Member
		max     int
		spare   int
		kind    remediation.Kind
		message string
		after   time.Duration
	}{
		"not for long":              {member: running("m", unbegun(9*time.Minute)), max: 1, spare: 1, kind: remediation.Recovered, after: time.Minute},
		"for ten minutes":           {member: running("m", unbegun(10*time.Minute)), max: 1, spare: 1, kind: remediation.Begin, message: "has not begun"},
		"it may have begun":         {member: running("m", unbegun(time.Hour), func(m *remediation.Member) { m.UnbegunSince = time.Time{} }), max: 1, spare: 1, kind: remediation.Recovered},
		"no other host":             {member: running("m", unbegun(time.Hour)), max: 1, kind: remediation.Defer, message: "no other host is free and fits", after: 30 * time.Second},
		"turned off":                {member: running("m", unbegun(time.Hour)), spare: 1, kind: remediation.Defer, message: "maxInFlight"},
		"others are under way":      {member: running("m", unbegun(time.Hour)), beside: busy, max: 1, spare: 1, kind: remediation.Defer, message: "1 machines are under remediation", after: 9 * time.Minute},
		"the check failed, too":     {member: running("m", unbegun(time.Hour), unhealthy), max: 1, spare: 1, kind: remediation.Begin, message: "has not begun"},
		"killed before it went":     {member: running("m", unbegun(time.Hour), tried(0, replace, time.Minute)), max: 1, spare: 1, kind: remediation.Begin, message: "has not begun"},
		"on its way":                {member: running("m", unbegun(time.Hour), leaving, tried(0, replace, time.Minute)), max: 1, spare: 1, kind: remediation.Wait},
		"every machine of the pool": {member: running("m", unbegun(time.Hour), unhealthy), beside: running("b", failing), max: 1, spare: 1, kind: remediation.Begin, message: "has not begun"},
	} {
		members := []remediation.Member{tc.member}
		if tc.beside.Name != "" {
			members = append(members, tc.beside)
		}
		plan := remediation.Make(remediation.Input{Policy: ladder(tc.max, reboot), Members: members, SpareHosts: tc.spare, Now: now})
		got := plan.Decisions[len(plan.Decisions)-1]
		if got.Member != "m" || got.Kind != tc.kind || !strings.Contains(got.Message, tc.message) {
			t.Errorf("%s: %+v, want %s: %s", name, got, tc.kind, tc.message)
		}
		if tc.kind == remediation.Begin && got.Attempt != (remediation.Attempt{Action: replace, Since: now}) {
			t.Errorf("%s: attempt %+v", name, got.Attempt)
		}
		if tc.after != 0 && plan.After != tc.after {
			t.Errorf("%s: plan again after %s, want %s", name, plan.After, tc.after)
		}
	}
}

// Hosts that a hard spread does not allow are no spares, and one host replaces one machine.
func TestSparesOfADomain(t *testing.T) {
	in := func(domain string) func(*remediation.Member) {
		return func(m *remediation.Member) { m.Domain = domain }
	}
	for name, tc := range map[string]struct {
		spares map[string]int
		begins int
	}{
		"none where it must be": {map[string]int{"x": 0, "y": 5}, 0},
		"one for two":           {map[string]int{"x": 1, "y": 5}, 1},
		"one for each":          {map[string]int{"x": 2}, 2},
	} {
		plan := remediation.Make(remediation.Input{
			Policy: ladder(9, replace), SpareHosts: 5, DomainSpares: tc.spares, Now: now,
			Members: []remediation.Member{running("a"), running("m", unhealthy, offline, in("x")), running("n", unhealthy, offline, in("x"))},
		})
		begins := 0
		for _, d := range plan.Decisions {
			switch {
			case d.Kind == remediation.Begin:
				begins++
			case d.Kind == remediation.Defer && !strings.Contains(d.Message, "in failure domain x, which spec.spread asks for"):
				t.Errorf("%s: %+v", name, d)
			}
		}
		if begins != tc.begins {
			t.Errorf("%s: %d begin, want %d", name, begins, tc.begins)
		}
	}
	none := remediation.Make(remediation.Input{
		Policy: ladder(9, replace), DomainSpares: map[string]int{"x": 1}, Now: now,
		Members: []remediation.Member{running("a"), running("m", unhealthy, offline, in("x"))},
	})
	if d := none.Decisions[1]; d.Kind != remediation.Defer {
		t.Errorf("machines wait for all hosts that are free: %+v", d)
	}
}

// A machine whose host is to be emptied is the rollout's, healthy or not.
func TestEvacuation(t *testing.T) {
	evacuate := func(m *remediation.Member) { m.Evacuate = true }
	for name, tc := range map[string]struct {
		member remediation.Member
		kind   remediation.Kind
	}{
		"healthy":                {running("m", evacuate), remediation.None},
		"unhealthy":              {running("m", evacuate, unhealthy), remediation.Defer},
		"killed before deletion": {running("m", evacuate, unhealthy, tried(1, replace, time.Minute)), remediation.Defer},
		"on its way":             {running("m", evacuate, leaving, tried(1, replace, time.Minute)), remediation.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			plan := remediation.Make(remediation.Input{Policy: ladder(1, reboot, replace), Members: []remediation.Member{running("a"), tc.member}, SpareHosts: 1, Now: now})
			if got := plan.Decisions[1]; got.Kind != tc.kind {
				t.Errorf("decision = %+v, want %s", got, tc.kind)
			}
		})
	}
}

func TestWholePoolLooksDead(t *testing.T) {
	members := []remediation.Member{running("a", unhealthy), running("b", unhealthy), running("c", unhealthy, leaving)}
	plan := remediation.Make(remediation.Input{Policy: ladder(3, reboot, replace), Members: members, SpareHosts: 9, Now: now})
	for _, d := range plan.Decisions {
		if d.Kind == remediation.Begin {
			t.Errorf("%s: %s begins although no machine of the pool is healthy", d.Member, d.Attempt.Action)
		}
	}
	alone := remediation.Make(remediation.Input{Policy: ladder(1, replace), Members: members[:1], Now: now})
	if alone.Decisions[0].Kind != remediation.Begin {
		t.Errorf("the only machine of a pool is not remediated: %+v", alone.Decisions)
	}
}

// Newest first, and no more at once than allowed.
func TestMaxInFlight(t *testing.T) {
	older := func(h time.Duration) func(*remediation.Member) {
		return func(m *remediation.Member) { m.Created = now.Add(-h) }
	}
	in := remediation.Input{Policy: ladder(2, reboot, replace), Now: now, Members: []remediation.Member{
		running("healthy"),
		running("oldest", unhealthy, older(9*time.Hour)),
		running("middle", unhealthy, older(5*time.Hour)),
		running("newest", unhealthy, older(2*time.Hour)),
		running("again", unhealthy, older(20*time.Hour), tried(0, reboot, 30*time.Minute)),
	}}
	got := map[string]remediation.Kind{}
	for _, d := range remediation.Make(in).Decisions {
		got[d.Member] = d.Kind
	}
	want := map[string]remediation.Kind{
		"healthy": remediation.Recovered, "oldest": remediation.Defer, "middle": remediation.Defer,
		"newest": remediation.Begin, "again": remediation.Begin,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("decisions = %v, want %v", got, want)
	}
}

func TestSpareHostsAreCounted(t *testing.T) {
	in := remediation.Input{Policy: ladder(5, replace), SpareHosts: 2, Now: now, Members: []remediation.Member{
		running("healthy"), running("a", unhealthy, offline), running("b", unhealthy, offline), running("c", unhealthy, offline),
	}}
	begun := 0
	for _, d := range remediation.Make(in).Decisions {
		if d.Kind == remediation.Begin {
			begun++
		}
	}
	if begun != 2 {
		t.Errorf("%d machines on silent hosts are replaced with 2 hosts to spare", begun)
	}
}

// Whatever state a pool is in, the bounds hold and the order of members is of no
// importance.
func TestBoundsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	actions := []infrav1.RemediationAction{reboot, rebootstrap, replace}
	for range 20_000 {
		in := remediation.Input{Policy: ladder(r.IntN(4), actions[r.IntN(3):]...), SpareHosts: r.IntN(3), Now: now}
		for i := range 1 + r.IntN(6) {
			in.Members = append(in.Members, randomMember(r, i))
		}
		plan := remediation.Make(in)
		check(t, in, plan)
		r.Shuffle(len(in.Members), func(i, j int) { in.Members[i], in.Members[j] = in.Members[j], in.Members[i] })
		if again := remediation.Make(in); fmt.Sprint(again) != fmt.Sprint(plan) {
			t.Fatalf("the plan depends on the order of members:\n%+v\n%+v", plan, again)
		}
	}
}

func randomMember(r *rand.Rand, i int) remediation.Member {
	flip := func() bool { return r.IntN(2) == 0 }
	m := remediation.Member{
		Name: fmt.Sprintf("m%d", i), Created: now.Add(-time.Duration(r.IntN(5)) * time.Hour),
		Health:  []remediation.Health{remediation.Unknown, remediation.Healthy, remediation.Failing, remediation.Unhealthy}[r.IntN(4)],
		Leaving: r.IntN(4) == 0, Replaced: flip(), Claimed: flip(), RebootFailed: flip(),
	}
	m.Provisioned, m.Connected = m.Claimed && flip(), m.Claimed && flip()
	if flip() {
		step := r.IntN(3)
		tried(step, []infrav1.RemediationAction{reboot, rebootstrap, replace}[step], time.Duration(r.IntN(100))*time.Minute)(&m)
	}
	return m
}

func check(t *testing.T, in remediation.Input, plan remediation.Plan) {
	t.Helper()
	members := map[string]remediation.Member{}
	before, dead := 0, true
	for _, m := range in.Members {
		members[m.Name] = m
		if m.Attempt != nil {
			before++
		}
		dead = dead && (m.Leaving || m.Health == remediation.Unhealthy || m.Health == remediation.Failing)
	}
	if plan.InFlight > max(in.Policy.MaxInFlight, before) {
		t.Fatalf("%d in flight, allowed %d, %d had an attempt before: %+v", plan.InFlight, in.Policy.MaxInFlight, before, in.Members)
	}
	spare := in.SpareHosts
	for _, d := range plan.Decisions {
		m := members[d.Member]
		if d.Kind != remediation.Begin {
			continue
		}
		switch {
		case m.Leaving || (m.Health != remediation.Unhealthy && m.Attempt == nil):
			t.Fatalf("%s begins with %+v", d.Attempt.Action, m)
		case !m.Connected && d.Attempt.Action != replace && m.Attempt == nil:
			t.Fatalf("%s is asked of a silent host: %+v", d.Attempt.Action, m)
		case dead && len(in.Members) > 1 && staying(in.Members) > 1:
			t.Fatalf("%s begins although the whole pool looks dead: %+v", d.Attempt.Action, in.Members)
		}
		if d.Attempt.Action == replace && !m.Connected && (m.Attempt == nil || m.Attempt.Action != replace) {
			spare--
		}
	}
	if spare < 0 {
		t.Fatalf("more silent hosts are given up than there are hosts to spare: %+v", plan.Decisions)
	}
}

func staying(members []remediation.Member) int {
	n := 0
	for _, m := range members {
		if !m.Leaving {
			n++
		}
	}
	return n
}

func TestNewPolicy(t *testing.T) {
	p, err := remediation.NewPolicy(infrav1.HostMachinePoolRemediation{}, 10)
	if err != nil || p.MaxInFlight != 1 || p.MinHealthyPeriod != time.Hour || len(p.Steps) != 1 || p.Steps[0].Action != replace {
		t.Errorf("default policy = %+v, %v", p, err)
	}
	p, err = remediation.NewPolicy(infrav1.HostMachinePoolRemediation{
		MaxInFlight: ptr.To(intstr.FromString("25%")), MinHealthyPeriodSeconds: ptr.To[int32](60),
		Steps: []infrav1.RemediationStep{{Action: reboot}, {Action: rebootstrap, TimeoutSeconds: ptr.To[int32](5)}},
	}, 10)
	if err != nil || p.MaxInFlight != 3 || p.MinHealthyPeriod != time.Minute || p.Steps[0].Timeout != 10*time.Minute || p.Steps[1].Timeout != 5*time.Second {
		t.Errorf("policy = %+v, %v", p, err)
	}
	if _, err := remediation.NewPolicy(infrav1.HostMachinePoolRemediation{MaxInFlight: ptr.To(intstr.FromString("x"))}, 10); err == nil {
		t.Error("maxInFlight x is accepted")
	}
}

func TestAttemptRoundTrip(t *testing.T) {
	want := remediation.Attempt{Step: 1, Action: rebootstrap, Since: now, Replaces: "m"}
	got := remediation.ParseAttempt(map[string]string{infrav1.RemediationAnnotation: want.String()})
	if got == nil || *got != want {
		t.Errorf("attempt = %+v, want %+v", got, want)
	}
	for _, spoiled := range []string{"", "x", "{}", `{"step":-1,"action":"Reboot","since":"2026-11-21T12:00:00Z"}`} {
		if got := remediation.ParseAttempt(map[string]string{infrav1.RemediationAnnotation: spoiled}); got != nil {
			t.Errorf("%q is read as %+v", spoiled, got)
		}
	}
}
