package run_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// traced has the spans of its controllers recorded, of which each is a process of its own.
type traced struct {
	*world
	spans *tracetest.SpanRecorder
}

func newTraced(t *testing.T, steps ...lifecyclev1.Step) *traced {
	t.Helper()
	w := &traced{world: newWorld(t, upgrade, steps...), spans: tracetest.NewSpanRecorder()}
	w.restart()
	return w
}

func (w *traced) restart() {
	w.Reconciler = w.reconciler(w.Client)
	w.Tracer = tracing.New(tracing.NewProvider(sdktrace.WithSpanProcessor(w.spans)))
}

// told are the spans in their order: parent/name and why it failed. All of them are of the
// trace of the run.
func (w *traced) told() []string {
	w.t.Helper()
	names := map[string]string{}
	for _, s := range w.spans.Ended() {
		id := s.SpanContext().SpanID().String()
		if other, ok := names[id]; ok {
			w.t.Errorf("%s and %s are one span", other, s.Name())
		}
		names[id] = s.Name()
	}
	link := tracing.OfRun(string(w.run().UID)).Link()
	var all []string
	for _, s := range w.spans.Ended() {
		if s.SpanContext().TraceID() != link.SpanContext.TraceID() {
			w.t.Errorf("span %s is of another trace", s.Name())
		}
		all = append(all, fmt.Sprintf("%s/%s:%s", names[s.Parent().SpanID().String()], s.Name(), s.Status().Description))
	}
	return all
}

func (w *traced) tells(want ...string) {
	w.t.Helper()
	if got := w.told(); !slices.Equal(got, want) {
		w.t.Errorf("the spans are\n%q want\n%q", got, want)
	}
}

// A step that fails has its attempts below it, each time that it is begun; who ends it may be
// another process than who began it.
func TestTraceOfFailedAttempts(t *testing.T) {
	w := newTraced(t, applyStep("cni", func(s *lifecyclev1.Step) { s.Retry = &lifecyclev1.RetryPolicy{Limit: ptr.To[int32](1)} }))
	w.effects.fail = map[string]error{"cni": errRefused}
	begin := w.clock.Now()
	w.expect(lifecyclev1.RunRunning, "cni", "")
	w.restart()
	w.clock.Step(10 * time.Second)
	w.expect(lifecyclev1.RunFailed, "cni", "failed at")
	w.effects.fail = nil
	w.decide(lifecyclev1.DecisionRetry, "cni")
	w.expect(lifecyclev1.RunSucceeded, "", "1 of 1")
	root := "run BeforeClusterUpgrade"
	w.tells("cni/attempt:connection refused", "cni/attempt:connection refused", root+"/cni:connection refused", root+"/cni:", "/"+root+":")
	step := w.spans.Ended()[2]
	if !step.StartTime().Equal(begin) || step.EndTime().Sub(begin) != 10*time.Second {
		t.Errorf("the step took from %s to %s", step.StartTime(), step.EndTime())
	}
	for i, attempt := range w.spans.Ended()[:2] {
		if attempt.Parent().SpanID() != step.SpanContext().SpanID() {
			t.Errorf("attempt %d is below another beginning of the step", i)
		}
	}
}

// An outage is told once, and what waits for somebody is told when it has ended.
func TestTraceIsNoLog(t *testing.T) {
	w := newTraced(t, applyStep("cni"), approvalStep())
	w.effects.fail = map[string]error{"cni": apierrors.NewServiceUnavailable("etcd is away")}
	for range 3 {
		w.expect(lifecyclev1.RunRunning, "cni", "")
		w.clock.Step(time.Minute)
	}
	w.effects.fail = nil
	for range 3 {
		w.expect(lifecyclev1.RunWaiting, "go", "waits since")
		w.clock.Step(time.Hour)
	}
	w.tells("cni/attempt:etcd is away", "/cni:")
}

// A run that is given up tells so, with the step that it was at.
func TestTraceOfACancelledRun(t *testing.T) {
	w := newTraced(t, approvalStep())
	w.expect(lifecyclev1.RunWaiting, "go", "waits since")
	if err := w.Client.Delete(ctx, w.policy); err != nil {
		t.Fatal(err)
	}
	w.expect(lifecyclev1.RunCancelled, "", "was deleted")
	w.expect(lifecyclev1.RunCancelled, "", "was deleted")
	why := w.run().Spec.Cancelled
	w.tells("run BeforeClusterUpgrade/go:"+why, "/run BeforeClusterUpgrade:"+why)
}
