package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/status"
)

// noon is when pages of these tests are looked at, and before is some time earlier.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func since(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// told has a word for each span: role, what, where it begins and how wide it is.
func told(spans []Span) []string {
	var all []string
	for _, s := range spans {
		all = append(all, fmt.Sprintf("%s %s %d+%d", s.Role, s.Word, s.X, s.Width))
	}
	return all
}

func TestSpansArePlacedWithinTheirRow(t *testing.T) {
	from := noon.Add(-100 * time.Second)
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	got := told(place([]Span{{Word: "before", From: at(-9), To: at(0)}, {Word: "cut", From: at(-50), To: at(10)}, {Word: "short", From: at(50), To: at(50).Add(time.Millisecond)}, {Word: "last", From: noon.Add(-time.Millisecond), To: noon.Add(time.Hour)}, {Word: "none", From: at(60), To: at(60)}}, from, noon))
	if want := []string{" cut 0+100", " short 500+4", " last 996+4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := place([]Span{{From: noon, To: noon.Add(time.Second)}}, noon, noon); got != nil {
		t.Errorf("in no time: %v", got)
	}
}

func TestLifeOfAHost(t *testing.T) {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: since(time.Hour)}}
	h.Status.CleanProof = &infrav1.CleanProof{Time: since(50 * time.Minute)}
	h.Status.ObservedOperation = &infrav1.ObservedOperation{Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationSucceeded, StartTime: since(20 * time.Minute), CompletionTime: since(20*time.Minute - 3*time.Second)}
	began := noon.Add(-time.Minute)
	var words []string
	life, x := lifeOf(h, status.State{Role: status.Bad, Word: "NodeUnwell", Since: &began}, noon), 0
	for _, s := range life {
		words = append(words, fmt.Sprint(s.Role, " ", s.Word, " ", s.Took()))
		if s.X < x || s.X > x+1 || s.Width < 50 {
			t.Errorf("%s is at %d+%d, after %d", s.Word, s.X, s.Width, x)
		}
		x = s.X + s.Width
	}
	if last := life[len(life)-1]; !last.Open || life[0].Open {
		t.Errorf("%+v", life)
	}
	if want := []string{"off Enrolled 10m0s", "free Available 30m0s", "work to be Bootstrapped 3s", "ok Running 18m57s", "bad NodeUnwell 1m0s"}; !slices.Equal(words, want) || x > ganttWidth {
		t.Errorf("%q until %d, want %q", words, x, want)
	}
}

// A certificate ends at a time that was set before the host ran.
func TestLifeEndsWithWhatIsSoNow(t *testing.T) {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: since(time.Hour)}}
	began := noon.Add(-2 * time.Hour)
	if got := told(lifeOf(h, status.State{Role: status.Bad, Word: "CertificateExpires", Since: &began}, noon)); !slices.Equal(got, []string{"bad CertificateExpires 0+1000"}) {
		t.Errorf("%q", got)
	}
}

func TestStepsOfAnOperation(t *testing.T) {
	h := &infrav1.Host{}
	h.Spec.Desired = &infrav1.HostDesired{OperationID: "op"}
	step := func(name string, begin, took time.Duration) infrav1.OperationStep {
		s := infrav1.OperationStep{Name: name, StartTime: metav1.NewMicroTime(noon.Add(begin))}
		if took > 0 {
			s.CompletionTime = metav1.NewMicroTime(noon.Add(begin + took))
		}
		return s
	}
	h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", State: infrav1.OperationFailed, Step: "join", StartTime: metav1.NewTime(noon), CompletionTime: metav1.NewTime(noon.Add(4 * time.Second)), Steps: []infrav1.OperationStep{
		step("quick", 0, 99*time.Millisecond), step("cut short", time.Second, 0), step("join", 2*time.Second, 3*time.Second),
	}}
	op := operationOf(h, noon.Add(time.Hour))
	var spans []Span
	for _, s := range op.Steps {
		spans = append(spans, s.Span)
	}
	if got, want := told(spans), []string{"off cut short 200+200", "bad join 400+600"}; op.Brief != 1 || !slices.Equal(got, want) || op.Steps[0].Done || !op.Steps[1].Done {
		t.Errorf("%d brief, %q, want %q", op.Brief, got, want)
	}
	h.Status.ObservedOperation.State, h.Status.ObservedOperation.CompletionTime = infrav1.OperationRunning, metav1.Time{}
	h.Status.ObservedOperation.Steps[2].CompletionTime = metav1.MicroTime{}
	op = operationOf(h, noon.Add(10*time.Second))
	if s := op.Steps[1]; s.Role != status.Work || s.Done || s.X+s.Width != ganttWidth {
		t.Errorf("under way: %+v", s)
	}
}

// Machines that were up to date when a rollout began took none of its time, also when a node of theirs
// was not ready for a moment since, and those that were upgraded in place took some.
func TestRateOfARolloutIsOfWhatItDid(t *testing.T) {
	began := noon.Add(-10 * time.Minute)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	rolling := []metav1.Condition{{Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	before := times{created: at(-60), began: at(-59), ended: at(-58), ready: at(-57)}
	flapped, unknown, upgraded := before, times{created: at(-60), ready: at(-57)}, times{created: at(-60), began: at(2), ended: at(4), ready: at(-57)}
	flapped.ready = at(3)
	old := Member{Name: "old", Outdated: true, times: before}
	members := []Member{old, old, {Name: "before", times: before}, {Name: "flapped", times: flapped}, {Name: "unknown", times: unknown}}
	if r := rolloutOf(members, rolling, noon); r.Updated != 3 || r.Each != 0 || r.Rest != 0 {
		t.Errorf("nothing is rolled out yet: %d updated, each %s, rest %s", r.Updated, r.Each, r.Rest)
	}
	members = append(members, Member{Name: "upgraded", times: upgraded}, Member{Name: "new", times: times{created: at(5), ready: at(9)}})
	if r := rolloutOf(members, rolling, noon); r.Updated != 5 || r.Each != 5*time.Minute || r.Rest != 10*time.Minute {
		t.Errorf("two are rolled out: %d updated, each %s, rest %s", r.Updated, r.Each, r.Rest)
	}
}

// One of five is ready, one joins, one is drained and waits for a budget, two are queued.
func TestRolloutHasRateRestAndWhatItWaitsFor(t *testing.T) {
	began := noon.Add(-10 * time.Minute)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	old := times{created: began.Add(-time.Hour), claimed: began.Add(-time.Hour), began: began.Add(-time.Hour), ended: began.Add(-time.Hour), ready: began.Add(-time.Hour)}
	drained := old
	drained.deleted = at(8)
	members := []Member{
		{Name: "old-1", Outdated: true, times: old, order: 1, group: "w", Waiting: "UpToDate: not yet"},
		{Name: "old-2", Outdated: true, times: old, order: 1, group: "w"},
		{Name: "old-3", Outdated: true, times: drained, order: 1, group: "w", Waiting: "PodDisruptionBudget web allows no eviction"},
		{Name: "new-2", times: times{created: at(5), claimed: at(6), began: at(6), ended: at(8)}, order: 1, group: "w"},
		{Name: "new-1", times: times{created: at(0), claimed: at(1), began: at(1), ended: at(3), ready: at(4)}, order: 1, group: "w"},
	}
	rolling := []metav1.Condition{{Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
	r := rolloutOf(members, rolling, noon)
	if r.Updated != 1 || r.Total != 5 || r.Each != 10*time.Minute || r.Rest != 40*time.Minute {
		t.Errorf("%+v", r)
	}
	if want := []string{"old-3: PodDisruptionBudget web allows no eviction"}; !slices.Equal(r.Blockers, want) {
		t.Errorf("waits for %q", r.Blockers)
	}
	if want := []Part{{status.OK, 0, 1}, {status.Work, 1, 2}}; !slices.Equal(r.Bar.Parts, want) {
		t.Errorf("bar %+v", r.Bar)
	}
	if len(r.Steps) != 1 || r.Steps[0].Word != "MachinePool w" || r.Steps[0].Role != status.Work || r.Steps[0].Updated != 1 {
		t.Errorf("steps %+v", r.Steps)
	}
	rows := map[string][]string{}
	for _, row := range r.Rows {
		rows[row.Name] = told(row.Spans)
	}
	for name, want := range map[string][]string{
		"new-1": {"off waits for a host 0+100", "work host prepared 100+200", "work node joins 300+100", "ok ready 400+600"},
		"new-2": {"off waits for a host 500+100", "work host prepared 600+200", "work node joins 800+200"},
		"old-3": {"off queued 0+800", "work drained and deleted 800+200"}, "old-1": {"off queued 0+1000"},
	} {
		if !slices.Equal(rows[name], want) {
			t.Errorf("%s: %q, want %q", name, rows[name], want)
		}
	}
	if r.Rows[0].Name != "new-1" || r.Rows[4].Outdated != true {
		t.Errorf("order: %v", r.Rows)
	}
	// None is done yet, so there is no rate; at rest there is no rollout.
	if r := rolloutOf(members[:4], rolling, noon); r.Each != 0 || r.Rest != 0 {
		t.Errorf("%+v", r)
	}
	rolling[0].Status = metav1.ConditionFalse
	if rolloutOf(members, rolling, noon) != nil {
		t.Error("a rollout at rest")
	}
}
