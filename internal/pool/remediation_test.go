package pool_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

const (
	reboot      = infrav1.RemediationReboot
	rebootstrap = infrav1.RemediationRebootstrap
	replace     = infrav1.RemediationReplace
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ladder(maxInFlight int, actions ...infrav1.RemediationAction) pool.RemediationPolicy {
	p := pool.RemediationPolicy{MaxInFlight: maxInFlight, MinHealthyPeriod: time.Hour}
	for _, action := range actions {
		p.Steps = append(p.Steps, pool.RemediationStep{Action: action, Timeout: 10 * time.Minute})
	}
	return p
}

// healthyMember is one on a connected host.
func healthyMember(name string, change ...func(*pool.Member)) pool.Member {
	m := pool.Member{Name: name, HostMachine: true, Created: now.Add(-time.Hour), Health: pool.Healthy, Claimed: true, Provisioned: true, Connected: true}
	for _, c := range change {
		c(&m)
	}
	return m
}

func unhealthy(m *pool.Member) { m.Health = pool.Unhealthy }
func failing(m *pool.Member)   { m.Health = pool.Failing }
func offline(m *pool.Member)   { m.Connected = false }
func going(m *pool.Member)     { m.Leaving = true }
func skipped(m *pool.Member)   { m.Skipped = true }
func hostless(m *pool.Member)  { m.Claimed, m.Provisioned, m.Connected = false, false, false }

func tried(step int, action infrav1.RemediationAction, ago time.Duration) func(*pool.Member) {
	return func(m *pool.Member) {
		m.Attempt = &pool.Attempt{Step: step, Action: action, Since: now.Add(-ago)}
	}
}

// inPlaceOf is the machine that a rebootstrap made.
func inPlaceOf(ago time.Duration) func(*pool.Member) {
	return func(m *pool.Member) {
		tried(1, rebootstrap, ago)(m)
		m.Attempt.Replaces, m.Pinned = "old", true
	}
}

// input is a pool of members with hosts that are free.
func input(policy pool.RemediationPolicy, free int, members ...pool.Member) pool.RemediationInput {
	return pool.RemediationInput{Policy: policy, Pool: pool.Pool{FreeHosts: free, Members: members}, Now: now}
}

// TestOneMember looks at one machine beside another that is healthy.
func TestOneMember(t *testing.T) {
	all := ladder(1, reboot, rebootstrap, replace)
	for name, tc := range map[string]struct {
		policy  pool.RemediationPolicy
		member  pool.Member
		spare   int
		kind    pool.DecisionKind
		action  infrav1.RemediationAction
		step    int
		message string
		after   time.Duration
	}{
		"healthy":                        {policy: all, member: healthyMember("m"), kind: pool.DecisionRecovered},
		"no health check":                {policy: all, member: healthyMember("m", func(m *pool.Member) { m.Health = pool.HealthUnknown }), kind: pool.DecisionRecovered},
		"unhealthy":                      {policy: all, member: healthyMember("m", unhealthy), kind: pool.DecisionBegin, action: reboot, after: 10 * time.Minute},
		"held back by the check":         {policy: all, member: healthyMember("m", failing), kind: pool.DecisionDefer, message: "MachineHealthCheck"},
		"rebooting":                      {policy: all, member: healthyMember("m", unhealthy, tried(0, reboot, 4*time.Minute)), kind: pool.DecisionWait, after: 6 * time.Minute},
		"reboot did not help":            {policy: all, member: healthyMember("m", unhealthy, tried(0, reboot, 10*time.Minute)), kind: pool.DecisionBegin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"reboot failed":                  {policy: all, member: healthyMember("m", unhealthy, tried(0, reboot, time.Second), func(m *pool.Member) { m.RebootFailed = true }), kind: pool.DecisionBegin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"reboot helped":                  {policy: all, member: healthyMember("m", tried(0, reboot, 20*time.Minute)), kind: pool.DecisionRecovered, after: 40 * time.Minute},
		"unhealthy again soon":           {policy: all, member: healthyMember("m", unhealthy, tried(0, reboot, 50*time.Minute)), kind: pool.DecisionBegin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"healthy for long":               {policy: all, member: healthyMember("m", tried(0, reboot, time.Hour)), kind: pool.DecisionForget},
		"offline, another is free":       {policy: all, member: healthyMember("m", unhealthy, offline), spare: 1, kind: pool.DecisionBegin, action: replace, step: 2},
		"offline, no other is free":      {policy: all, member: healthyMember("m", unhealthy, offline), kind: pool.DecisionDefer, message: "no other host is free", after: 30 * time.Second},
		"bootstrap failed":               {policy: all, member: healthyMember("m", unhealthy, func(m *pool.Member) { m.Provisioned = false }), kind: pool.DecisionBegin, action: rebootstrap, step: 1, after: 10 * time.Minute},
		"without host":                   {policy: all, member: healthyMember("m", unhealthy, hostless), spare: 1, kind: pool.DecisionDefer, message: "no host yet"},
		"leaving by itself":              {policy: all, member: healthyMember("m", unhealthy, going), kind: pool.DecisionNone},
		"leaving after a reboot":         {policy: all, member: healthyMember("m", going, tried(0, reboot, time.Minute)), kind: pool.DecisionNone},
		"leaving to be replaced":         {policy: all, member: healthyMember("m", unhealthy, going, tried(2, replace, time.Minute)), kind: pool.DecisionWait},
		"leaving, to be made anew":       {policy: all, member: healthyMember("m", unhealthy, going, tried(1, rebootstrap, time.Minute)), kind: pool.DecisionPin},
		"leaving, was made anew":         {policy: all, member: healthyMember("m", unhealthy, going, tried(1, rebootstrap, time.Minute), func(m *pool.Member) { m.Replaced = true }), kind: pool.DecisionWait},
		"made anew, waits for host":      {policy: all, member: healthyMember("m", hostless, inPlaceOf(4*time.Minute)), kind: pool.DecisionWait, after: 6 * time.Minute},
		"made anew, never comes up":      {policy: all, member: healthyMember("m", hostless, inPlaceOf(10*time.Minute)), spare: 1, kind: pool.DecisionBegin, action: replace, step: 2},
		"made anew, no other is free":    {policy: all, member: healthyMember("m", hostless, inPlaceOf(10*time.Minute)), kind: pool.DecisionDefer, message: "no other host is free", after: 30 * time.Second},
		"made anew, still unhealthy":     {policy: all, member: healthyMember("m", unhealthy, inPlaceOf(10*time.Minute)), kind: pool.DecisionBegin, action: replace, step: 2},
		"killed before the deletion":     {policy: all, member: healthyMember("m", unhealthy, tried(2, replace, time.Hour)), kind: pool.DecisionBegin, action: replace, step: 2},
		"recovered before it":            {policy: all, member: healthyMember("m", tried(2, replace, time.Minute)), kind: pool.DecisionRecovered, after: 59 * time.Minute},
		"no step left":                   {policy: ladder(1, reboot), member: healthyMember("m", unhealthy, tried(0, reboot, time.Hour)), kind: pool.DecisionGiveUp, message: "delete the Machine"},
		"no step possible":               {policy: ladder(1, reboot), member: healthyMember("m", unhealthy, offline), kind: pool.DecisionGiveUp, message: "delete the Machine"},
		"turned off":                     {policy: ladder(0, replace), member: healthyMember("m", unhealthy), kind: pool.DecisionDefer, message: "maxInFlight"},
		"replace only, connected":        {policy: ladder(1, replace), member: healthyMember("m", unhealthy), kind: pool.DecisionBegin, action: replace},
		"skipped":                        {policy: all, member: healthyMember("m", unhealthy, skipped), kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped, held back as well":     {policy: all, member: healthyMember("m", failing, skipped), kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped, rebooting":             {policy: all, member: healthyMember("m", unhealthy, skipped, tried(0, reboot, 4*time.Minute)), kind: pool.DecisionDefer, message: "skip-remediation", after: 6 * time.Minute},
		"skipped after a reboot":         {policy: all, member: healthyMember("m", unhealthy, skipped, tried(0, reboot, time.Hour)), kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped before the deletion":    {policy: all, member: healthyMember("m", unhealthy, skipped, tried(2, replace, time.Hour)), kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped, never comes up":        {policy: all, member: healthyMember("m", hostless, skipped, inPlaceOf(10*time.Minute)), spare: 1, kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped, silent from the start": {policy: all, member: healthyMember("m", skipped, func(m *pool.Member) { m.Provisioned, m.UnbegunSince = false, now.Add(-time.Hour) }), spare: 1, kind: pool.DecisionDefer, message: "skip-remediation"},
		"skipped and healthy":            {policy: all, member: healthyMember("m", skipped), kind: pool.DecisionRecovered},
		"skipped and leaving":            {policy: all, member: healthyMember("m", unhealthy, skipped, going, tried(1, rebootstrap, time.Minute)), kind: pool.DecisionPin},
		"step of a longer policy gone":   {policy: ladder(1, replace), member: healthyMember("m", unhealthy, tried(5, reboot, time.Second)), kind: pool.DecisionGiveUp},
	} {
		t.Run(name, func(t *testing.T) {
			plan := pool.Remediate(input(tc.policy, tc.spare, healthyMember("a"), tc.member))
			got := plan.Decisions[1]
			if got.Member != "m" || got.Kind != tc.kind || !strings.Contains(got.Message, tc.message) {
				t.Fatalf("decision = %+v, want %s: %s", got, tc.kind, tc.message)
			}
			if tc.kind == pool.DecisionBegin && (got.Attempt.Action != tc.action || got.Attempt.Step != tc.step) {
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
	unbegun := func(ago time.Duration) func(*pool.Member) {
		return func(m *pool.Member) {
			m.Health, m.Provisioned, m.Connected, m.UnbegunSince = pool.HealthUnknown, false, false, now.Add(-ago)
		}
	}
	busy := healthyMember("b", unhealthy, tried(0, reboot, time.Minute))
	for name, tc := range map[string]struct {
		member  pool.Member
		beside  pool.Member
		max     int
		spare   int
		kind    pool.DecisionKind
		message string
		after   time.Duration
	}{
		"not for long":              {member: healthyMember("m", unbegun(9*time.Minute)), max: 1, spare: 1, kind: pool.DecisionRecovered, after: time.Minute},
		"for ten minutes":           {member: healthyMember("m", unbegun(10*time.Minute)), max: 1, spare: 1, kind: pool.DecisionBegin, message: "has not begun"},
		"it may have begun":         {member: healthyMember("m", unbegun(time.Hour), func(m *pool.Member) { m.UnbegunSince = time.Time{} }), max: 1, spare: 1, kind: pool.DecisionRecovered},
		"no other host":             {member: healthyMember("m", unbegun(time.Hour)), max: 1, kind: pool.DecisionDefer, message: "no other host is free and fits", after: 30 * time.Second},
		"turned off":                {member: healthyMember("m", unbegun(time.Hour)), spare: 1, kind: pool.DecisionDefer, message: "maxInFlight"},
		"others are under way":      {member: healthyMember("m", unbegun(time.Hour)), beside: busy, max: 1, spare: 1, kind: pool.DecisionDefer, message: "1 machines are under remediation", after: 9 * time.Minute},
		"the check failed, too":     {member: healthyMember("m", unbegun(time.Hour), unhealthy), max: 1, spare: 1, kind: pool.DecisionBegin, message: "has not begun"},
		"killed before it went":     {member: healthyMember("m", unbegun(time.Hour), tried(0, replace, time.Minute)), max: 1, spare: 1, kind: pool.DecisionBegin, message: "has not begun"},
		"on its way":                {member: healthyMember("m", unbegun(time.Hour), going, tried(0, replace, time.Minute)), max: 1, spare: 1, kind: pool.DecisionWait},
		"every machine of the pool": {member: healthyMember("m", unbegun(time.Hour), unhealthy), beside: healthyMember("b", failing), max: 1, spare: 1, kind: pool.DecisionBegin, message: "has not begun"},
	} {
		members := []pool.Member{tc.member}
		if tc.beside.Name != "" {
			members = append(members, tc.beside)
		}
		plan := pool.Remediate(input(ladder(tc.max, reboot), tc.spare, members...))
		got := plan.Decisions[len(plan.Decisions)-1]
		if got.Member != "m" || got.Kind != tc.kind || !strings.Contains(got.Message, tc.message) {
			t.Errorf("%s: %+v, want %s: %s", name, got, tc.kind, tc.message)
		}
		if tc.kind == pool.DecisionBegin && got.Attempt != (pool.Attempt{Action: replace, Since: now}) {
			t.Errorf("%s: attempt %+v", name, got.Attempt)
		}
		if tc.after != 0 && plan.After != tc.after {
			t.Errorf("%s: plan again after %s, want %s", name, plan.After, tc.after)
		}
	}
}

// Hosts that a hard spread does not allow are no spares, one host replaces one machine, and the
// host that one member waits for is no spare to another one, in whatever order they come.
func TestSparesOfADomain(t *testing.T) {
	in := func(domain string) func(*pool.Member) {
		return func(m *pool.Member) { m.Domain, m.Revision = domain, "r" }
	}
	waits := func(m *pool.Member) { hostless(m); in("x")(m) }
	lost := func(name string) pool.Member { return healthyMember(name, unhealthy, offline, in("x")) }
	elsewhere := []pool.Member{healthyMember("a", in("y")), healthyMember("b", in("y")), healthyMember("c", in("y"))}
	for name, tc := range map[string]struct {
		x, free int
		members []pool.Member
		begins  int
	}{
		"none where it must be":      {0, 5, []pool.Member{lost("m"), lost("n")}, 0},
		"one for two":                {1, 6, []pool.Member{lost("m"), lost("n")}, 1},
		"one for each":               {2, 7, []pool.Member{lost("m"), lost("n")}, 2},
		"one that another waits for": {1, 6, []pool.Member{lost("m"), healthyMember("n", waits)}, 0},
		"that comes later":           {1, 6, []pool.Member{healthyMember("l", waits), lost("m")}, 0},
	} {
		input := input(ladder(9, replace), tc.free, append(tc.members, elsewhere...)...)
		input.Pool.HardSpread, input.Pool.Revision = true, "r"
		input.Pool.Domains = []pool.Domain{{Name: "x", Free: tc.x}, {Name: "y", Free: tc.free - tc.x}}
		begins := 0
		for _, d := range pool.Remediate(input).Decisions {
			switch {
			case d.Kind == pool.DecisionBegin:
				begins++
			case d.Kind == pool.DecisionDefer && !strings.Contains(d.Message, "in failure domain x, which spec.spread asks for"):
				t.Errorf("%s: %+v", name, d)
			}
		}
		if begins != tc.begins {
			t.Errorf("%s: %d begin, want %d", name, begins, tc.begins)
		}
	}
	none := input(ladder(9, replace), 1, healthyMember("a"), lost("m"), healthyMember("w", hostless))
	if d := pool.Remediate(none).Decisions[1]; d.Kind != pool.DecisionDefer {
		t.Errorf("machines wait for all hosts that are free: %+v", d)
	}
}

// A machine whose host is to be emptied is the rollout's, healthy or not.
func TestEvacuatedMemberTakesNoStep(t *testing.T) {
	evacuate := func(m *pool.Member) { m.Evacuate = true }
	for name, tc := range map[string]struct {
		member pool.Member
		kind   pool.DecisionKind
	}{
		"healthy":                {healthyMember("m", evacuate), pool.DecisionNone},
		"unhealthy":              {healthyMember("m", evacuate, unhealthy), pool.DecisionDefer},
		"killed before deletion": {healthyMember("m", evacuate, unhealthy, tried(1, replace, time.Minute)), pool.DecisionDefer},
		"on its way":             {healthyMember("m", evacuate, going, tried(1, replace, time.Minute)), pool.DecisionWait},
	} {
		t.Run(name, func(t *testing.T) {
			plan := pool.Remediate(input(ladder(1, reboot, replace), 1, healthyMember("a"), tc.member))
			if got := plan.Decisions[1]; got.Kind != tc.kind {
				t.Errorf("decision = %+v, want %s", got, tc.kind)
			}
		})
	}
}

func TestWholePoolLooksDead(t *testing.T) {
	members := []pool.Member{healthyMember("a", unhealthy), healthyMember("b", unhealthy), healthyMember("c", unhealthy, going)}
	plan := pool.Remediate(input(ladder(3, reboot, replace), 9, members...))
	for _, d := range plan.Decisions {
		if d.Kind == pool.DecisionBegin {
			t.Errorf("%s: %s begins although no machine of the pool is healthy", d.Member, d.Attempt.Action)
		}
	}
	alone := pool.Remediate(input(ladder(1, replace), 0, members[:1]...))
	if alone.Decisions[0].Kind != pool.DecisionBegin {
		t.Errorf("the only machine of a pool is not remediated: %+v", alone.Decisions)
	}
}

// Newest first, and no more at once than allowed.
func TestMaxInFlight(t *testing.T) {
	older := func(h time.Duration) func(*pool.Member) {
		return func(m *pool.Member) { m.Created = now.Add(-h) }
	}
	in := input(ladder(2, reboot, replace), 0,
		healthyMember("healthy"),
		healthyMember("oldest", unhealthy, older(9*time.Hour)),
		healthyMember("middle", unhealthy, older(5*time.Hour)),
		healthyMember("newest", unhealthy, older(2*time.Hour)),
		healthyMember("again", unhealthy, older(20*time.Hour), tried(0, reboot, 30*time.Minute)),
	)
	got := map[string]pool.DecisionKind{}
	for _, d := range pool.Remediate(in).Decisions {
		got[d.Member] = d.Kind
	}
	want := map[string]pool.DecisionKind{
		"healthy": pool.DecisionRecovered, "oldest": pool.DecisionDefer, "middle": pool.DecisionDefer,
		"newest": pool.DecisionBegin, "again": pool.DecisionBegin,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("decisions = %v, want %v", got, want)
	}
}

func TestSpareHostsAreCounted(t *testing.T) {
	in := input(ladder(5, replace), 2,
		healthyMember("healthy"), healthyMember("a", unhealthy, offline), healthyMember("b", unhealthy, offline), healthyMember("c", unhealthy, offline),
	)
	begun := 0
	for _, d := range pool.Remediate(in).Decisions {
		if d.Kind == pool.DecisionBegin {
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
		in := input(ladder(r.IntN(4), actions[r.IntN(3):]...), r.IntN(6))
		for i := range 1 + r.IntN(6) {
			in.Pool.Members = append(in.Pool.Members, randomMember(r, i))
		}
		plan := pool.Remediate(in)
		check(t, in, plan)
		r.Shuffle(len(in.Pool.Members), func(i, j int) { m := in.Pool.Members; m[i], m[j] = m[j], m[i] })
		if again := pool.Remediate(in); fmt.Sprint(again) != fmt.Sprint(plan) {
			t.Fatalf("the plan depends on the order of members:\n%+v\n%+v", plan, again)
		}
	}
}

func randomMember(r *rand.Rand, i int) pool.Member {
	flip := func() bool { return r.IntN(2) == 0 }
	m := pool.Member{
		HostMachine: true, Name: fmt.Sprintf("m%d", i), Created: now.Add(-time.Duration(r.IntN(5)) * time.Hour),
		Health:  []pool.Health{pool.HealthUnknown, pool.Healthy, pool.Failing, pool.Unhealthy}[r.IntN(4)],
		Leaving: r.IntN(4) == 0, Replaced: flip(), Claimed: flip(), RebootFailed: flip(),
	}
	m.Provisioned, m.Connected = m.Claimed && flip(), m.Claimed && flip()
	if flip() {
		step := r.IntN(3)
		tried(step, []infrav1.RemediationAction{reboot, rebootstrap, replace}[step], time.Duration(r.IntN(100))*time.Minute)(&m)
	}
	return m
}

func check(t *testing.T, in pool.RemediationInput, plan pool.Remediation) {
	t.Helper()
	members := map[string]pool.Member{}
	before, dead := 0, true
	for _, m := range in.Pool.Members {
		members[m.Name] = m
		if m.Attempt != nil {
			before++
		}
		dead = dead && (m.Leaving || m.Health == pool.Unhealthy || m.Health == pool.Failing)
	}
	if plan.InFlight > max(in.Policy.MaxInFlight, before) {
		t.Fatalf("%d in flight, allowed %d, %d had an attempt before: %+v", plan.InFlight, in.Policy.MaxInFlight, before, in.Pool.Members)
	}
	spare := in.Pool.FreeHosts
	for _, d := range plan.Decisions {
		m := members[d.Member]
		if d.Kind != pool.DecisionBegin {
			continue
		}
		switch {
		case m.Leaving || (m.Health != pool.Unhealthy && m.Attempt == nil):
			t.Fatalf("%s begins with %+v", d.Attempt.Action, m)
		case !m.Connected && d.Attempt.Action != replace && m.Attempt == nil:
			t.Fatalf("%s is asked of a silent host: %+v", d.Attempt.Action, m)
		case dead && len(in.Pool.Members) > 1 && staying(in.Pool.Members) > 1:
			t.Fatalf("%s begins although the whole pool looks dead: %+v", d.Attempt.Action, in.Pool.Members)
		}
		if d.Attempt.Action == replace && !m.Connected && (m.Attempt == nil || m.Attempt.Action != replace) {
			spare--
		}
	}
	if spare < 0 {
		t.Fatalf("more silent hosts are given up than there are hosts to spare: %+v", plan.Decisions)
	}
}

func staying(members []pool.Member) int {
	n := 0
	for _, m := range members {
		if !m.Leaving {
			n++
		}
	}
	return n
}

func TestNewPolicy(t *testing.T) {
	p, err := pool.NewRemediationPolicy(infrav1.HostMachinePoolRemediation{}, 10)
	if err != nil || p.MaxInFlight != 1 || p.MinHealthyPeriod != time.Hour || len(p.Steps) != 1 || p.Steps[0].Action != replace {
		t.Errorf("default policy = %+v, %v", p, err)
	}
	p, err = pool.NewRemediationPolicy(infrav1.HostMachinePoolRemediation{
		MaxInFlight: ptr.To(intstr.FromString("25%")), MinHealthyPeriodSeconds: ptr.To[int32](60),
		Steps: []infrav1.RemediationStep{{Action: reboot}, {Action: rebootstrap, TimeoutSeconds: ptr.To[int32](5)}},
	}, 10)
	if err != nil || p.MaxInFlight != 3 || p.MinHealthyPeriod != time.Minute || p.Steps[0].Timeout != 10*time.Minute || p.Steps[1].Timeout != 5*time.Second {
		t.Errorf("policy = %+v, %v", p, err)
	}
	if _, err := pool.NewRemediationPolicy(infrav1.HostMachinePoolRemediation{MaxInFlight: ptr.To(intstr.FromString("x"))}, 10); err == nil {
		t.Error("maxInFlight x is accepted")
	}
}

func TestAttemptRoundTrip(t *testing.T) {
	want := pool.Attempt{Step: 1, Action: rebootstrap, Since: now, Replaces: "m"}
	got := pool.ParseAttempt(map[string]string{infrav1.RemediationAnnotation: want.String()})
	if got == nil || *got != want {
		t.Errorf("attempt = %+v, want %+v", got, want)
	}
	for _, spoiled := range []string{"", "x", "{}", `{"step":-1,"action":"Reboot","since":"2026-11-21T12:00:00Z"}`} {
		if got := pool.ParseAttempt(map[string]string{infrav1.RemediationAnnotation: spoiled}); got != nil {
			t.Errorf("%q is read as %+v", spoiled, got)
		}
	}
}
