package view

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/status"
)

// ganttWidth is how wide all spans of a row are together.
const ganttWidth = 1000

// Span is a part of a row in time.
type Span struct {
	Role status.Role
	// Word says what was done, or how it was.
	Word     string
	From, To time.Time
	// Open says that it goes on.
	Open bool
	// X and Width are its place, of ganttWidth.
	X, Width int
}

// Took is how long it was.
func (s Span) Took() time.Duration { return s.To.Sub(s.From) }

// place puts spans into the time between from and to. What has no time is left out; whatever else
// can be seen, however short it was.
func place(spans []Span, from, to time.Time) []Span {
	whole := to.Sub(from)
	var placed []Span
	for _, s := range spans {
		s.From, s.Open, s.To = later(s.From, from), !s.To.Before(to), earlier(s.To, to)
		if whole <= 0 || !s.To.After(s.From) {
			continue
		}
		s.X = int(s.From.Sub(from) * ganttWidth / whole)
		s.Width = max(4, int(s.Took()*ganttWidth/whole))
		s.X = min(s.X, ganttWidth-s.Width)
		placed = append(placed, s)
	}
	return placed
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lifeOf is what a host was since it enrolled, as far as its Host tells: since events are kept for an
// hour, that is its last operation, its last proof, and its state. Widths are by the logarithm of the
// time: seconds of a bootstrap and weeks of work are both seen.
func lifeOf(h *infrav1.Host, state status.State, now time.Time) []Span {
	spans := []Span{{Role: status.Off, Word: "Enrolled", From: h.CreationTimestamp.UTC()}}
	begin := func(role status.Role, word string, at time.Time) {
		if !at.IsZero() {
			spans = append(spans, Span{Role: role, Word: word, From: at.UTC()})
		}
	}
	if proof := h.Status.CleanProof; proof != nil {
		begin(status.Free, string(infrav1.HostPhaseAvailable), proof.Time.Time)
	}
	if op := h.Status.ObservedOperation; op != nil {
		begin(status.Work, "to be "+string(op.Phase), op.StartTime.Time)
		switch {
		case op.State == infrav1.OperationSucceeded && op.Phase != infrav1.HostDesiredReset:
			begin(status.OK, string(infrav1.HostPhaseRunning), op.CompletionTime.Time)
		case op.State == infrav1.OperationFailed:
			begin(status.Bad, string(infrav1.HostPhaseFailed), op.CompletionTime.Time)
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	// What is so now comes last, also when it began before, as the end of a certificate may.
	if state.Since != nil {
		begin(state.Role, state.Word, later(*state.Since, spans[len(spans)-1].From))
	}
	weights, whole := make([]float64, len(spans)), 0.0
	for i := range spans {
		spans[i].To, spans[i].Open = now, i+1 == len(spans)
		if i+1 < len(spans) {
			spans[i].To = spans[i+1].From
		}
		if spans[i].Took() > 0 {
			weights[i] = 1 + math.Log2(1+spans[i].Took().Seconds())
			whole += weights[i]
		}
	}
	var life []Span
	x := 0.0
	for i, s := range spans {
		if weights[i] > 0 {
			s.X, s.Width = int(x), int(weights[i]*ganttWidth/whole)
			x += weights[i] * ganttWidth / whole
			life = append(life, s)
		}
	}
	return life
}

// Rollout is machines that are replaced or upgraded, in the order in which they began.
type Rollout struct {
	From time.Time
	Rows []RolloutRow
	// Updated of Total machines are of the new version.
	Updated, Total int
	Bar            Bar
	// Each is how long a machine took on average, of those that became up to date since From, and
	// Rest how long the others take at that rate; zero before one is done.
	Each, Rest time.Duration
	// Steps are what comes one after the other, such as the control plane and each pool.
	Steps []RolloutStep
	// Blockers say why it stands still, in the words of the machines.
	Blockers []string
}

// RolloutRow is a machine.
type RolloutRow struct {
	Member
	Spans []Span
	// Text is what it does now.
	Text string
}

// RolloutStep is a part of the machines.
type RolloutStep struct {
	status.State
	Updated, Total int
}

// times are when what happened of a machine.
type times struct {
	created, claimed, began, ended, ready, deleted time.Time
}

func timesOf(m *infrav1.HostMachine, machine *clusterv1.Machine, h *infrav1.Host) times {
	t := times{created: m.CreationTimestamp.UTC(), deleted: deletedAt(m.DeletionTimestamp)}
	if claimed := meta.FindStatusCondition(m.Status.Conditions, infrav1.HostClaimedCondition); claimed != nil && claimed.Status == metav1.ConditionTrue {
		t.claimed = claimed.LastTransitionTime.UTC()
	}
	if h != nil {
		if op := hosts.Observed(h); op != nil {
			t.began, t.ended = op.StartTime.UTC(), op.CompletionTime.UTC()
		}
	}
	if machine != nil {
		t.created, t.deleted = machine.CreationTimestamp.UTC(), deletedAt(machine.DeletionTimestamp)
		if ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
			t.ready = ready.LastTransitionTime.UTC()
		}
	}
	return t
}

func deletedAt(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// since says whether a machine that is done became so after a time: its host, whose operation ended,
// or its node where nothing is known of the host.
func (t times) since(from time.Time) bool {
	if !t.ended.IsZero() {
		return t.ended.After(from)
	}
	return t.ready.After(from)
}

// spans are what was done with a machine since a rollout began.
func (t times) spans(outdated bool, from, now time.Time) []Span {
	until := func(all ...time.Time) time.Time {
		for _, at := range all {
			if !at.IsZero() {
				return at
			}
		}
		return now
	}
	switch {
	case !t.deleted.IsZero():
		return place([]Span{{Role: status.Off, Word: "queued", From: from, To: t.deleted}, {Role: status.Work, Word: "drained and deleted", From: t.deleted, To: now}}, from, now)
	case outdated && t.ended.IsZero() && t.began.After(from):
		return place([]Span{{Role: status.Off, Word: "queued", From: from, To: t.began}, {Role: status.Work, Word: "upgraded in place", From: t.began, To: now}}, from, now)
	case outdated:
		return place([]Span{{Role: status.Off, Word: "queued", From: from, To: now}}, from, now)
	}
	spans := []Span{{Role: status.Off, Word: "waits for a host", From: t.created, To: until(t.claimed, t.began)}}
	if !t.began.IsZero() {
		spans = append(spans, Span{Role: status.Work, Word: "host prepared", From: t.began, To: until(t.ended)})
	}
	if !t.ended.IsZero() {
		spans = append(spans, Span{Role: status.Work, Word: "node joins", From: t.ended, To: until(later(t.ready, t.ended))})
		if t.ready.IsZero() {
			spans[len(spans)-1].To = now
		}
	}
	if !t.ready.IsZero() {
		spans = append(spans, Span{Role: status.OK, Word: "ready", From: later(t.ready, t.ended), To: now})
	}
	return place(spans, from, now)
}

// moves says whether a member is being replaced, made or upgraded in a rollout that began then.
func (row RolloutRow) moves(began time.Time, done bool) bool {
	return row.times.deleted.After(began) || !row.Outdated && !done || row.Text == "upgraded in place"
}

// judged is the step with its role.
func (step RolloutStep) judged(works bool) RolloutStep {
	step.Role = status.Off
	switch {
	case step.Updated == step.Total:
		step.Role = status.OK
	case step.Updated > 0 || works:
		step.Role = status.Work
	}
	return step
}

// rolloutOf shows members that are rolled out since a time; nil when that is not known.
func rolloutOf(members []Member, rolling []metav1.Condition, now time.Time) *Rollout {
	c := meta.FindStatusCondition(rolling, clusterv1.RollingOutCondition)
	if c == nil || c.Status != metav1.ConditionTrue || len(members) == 0 {
		return nil
	}
	r := &Rollout{From: c.LastTransitionTime.UTC(), Total: len(members)}
	count := map[status.Role]int{}
	type part struct {
		order int
		group string
	}
	steps, order, rolled := map[part]*RolloutStep{}, []part{}, 0
	for _, m := range members {
		row := RolloutRow{Member: m, Spans: m.times.spans(m.Outdated, r.From, now)}
		if n := len(row.Spans); n > 0 {
			row.Text = row.Spans[n-1].Word
		}
		of := part{m.order, m.group}
		step := steps[of]
		if step == nil {
			step = &RolloutStep{State: status.State{Word: strings.TrimSpace(groupKinds[m.order] + " " + m.group)}}
			steps[of], order = step, append(order, of)
		}
		step.Total++
		done := !m.Outdated && m.times.deleted.IsZero() && !m.times.ready.IsZero()
		step.Updated += one(done)
		r.Updated += one(done)
		rolled += one(done && m.times.since(r.From))
		moves := row.moves(r.From, done)
		switch {
		case done:
			count[status.OK]++
		case m.State.Role == status.Bad:
			count[status.Bad]++
		case moves:
			count[status.Work]++
		}
		if (moves || m.State.Role == status.Bad) && m.Waiting != "" {
			r.Blockers = append(r.Blockers, m.Name+": "+m.Waiting)
		}
		r.Rows = append(r.Rows, row)
	}
	r.Bar = barOf(r.Total, count, "")
	if rolled > 0 {
		r.Each = (now.Sub(r.From) / time.Duration(rolled)).Round(time.Second)
		r.Rest = r.Each * time.Duration(r.Total-r.Updated)
	}
	for _, of := range order {
		r.Steps = append(r.Steps, steps[of].judged(count[status.Work] > 0))
	}
	slices.SortStableFunc(r.Rows, func(a, b RolloutRow) int {
		return cmp.Or(cmp.Compare(one(a.Outdated), one(b.Outdated)), cmp.Compare(len(b.Spans), len(a.Spans)), a.times.created.Compare(b.times.created))
	})
	return r
}
