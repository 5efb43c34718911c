package link

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// leases is a server with one Lease, which plays a list of errors first.
type leases struct {
	gets, updates int
	getErrs, errs []error
	stored        *coordinationv1.Lease
	updated       func()
}

func (l *leases) GetLease(context.Context, string, string) (*coordinationv1.Lease, error) {
	l.gets++
	if len(l.getErrs) > 0 {
		err := l.getErrs[0]
		l.getErrs = l.getErrs[1:]
		return nil, err
	}
	return l.stored.DeepCopy(), nil
}

func (l *leases) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l.updates++
	defer l.updated()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	l.stored = lease
	return lease, nil
}

// Whoever watches the fleet sees when a certificate ends that is not renewed.
func TestHeartbeatTellsWhenTheCertificateEnds(t *testing.T) {
	ends := time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("", 3600))
	l := &leases{stored: &coordinationv1.Lease{}, updated: func() {}}
	h := &heartbeat{Leases: l, Namespace: "ns", Name: "h", Log: slog.New(slog.DiscardHandler), CertificateExpires: func() time.Time { return ends }}
	for _, want := range []string{"2026-01-02T04:04:05Z", "2026-01-03T04:04:05Z"} {
		if err := h.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.stored.Annotations[infrav1.CertificateExpirationAnnotation]; got != want {
			t.Errorf("the Lease says %q, want %q", got, want)
		}
		ends = ends.AddDate(0, 0, 1)
	}
}

func TestHeartbeatSaysWhatWasRefused(t *testing.T) {
	l := &leases{stored: &coordinationv1.Lease{}, updated: func() {}}
	a := &Agent{options: Options{Log: slog.New(slog.DiscardHandler)}, beat: make(chan struct{}, 1)}
	h := &heartbeat{Leases: l, Namespace: "ns", Name: "h", Log: slog.New(slog.DiscardHandler), ReportRefused: a.ReportRefused}
	for _, want := range []string{"addresses: too many", ""} {
		a.refusedReport(want)
		select {
		case <-a.beat:
		default:
			t.Errorf("%q is told by no heartbeat before its time", want)
		}
		if err := h.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, found := l.stored.Annotations[infrav1.ReportRefusedAnnotation]; got != want || found != (want != "") {
			t.Errorf("the Lease says %q, want %q", got, want)
		}
		a.refusedReport(want)
		if len(a.beat) > 0 {
			t.Errorf("%q is told twice", want)
		}
	}
}

// What cannot be told of a report does not cost the heartbeat.
func TestHeartbeatGoesOnWithoutWhatItMayNotSay(t *testing.T) {
	said := "addresses: too many"
	l := &leases{stored: &coordinationv1.Lease{}, updated: func() {}, errs: []error{apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "h", errors.New("denied"))}}
	h := &heartbeat{Leases: l, Namespace: "ns", Name: "h", Log: slog.New(slog.DiscardHandler), ReportRefused: func() string { return said }}
	if err := h.beat(t.Context()); err == nil {
		t.Fatal("the server took the first")
	}
	if err := h.beat(t.Context()); err != nil || l.stored.Annotations[infrav1.ReportRefusedAnnotation] != "" {
		t.Errorf("the second beat says %q: %v", l.stored.Annotations, err)
	}
	said = "capacity: too much"
	if err := h.beat(t.Context()); err != nil || l.stored.Annotations[infrav1.ReportRefusedAnnotation] != said {
		t.Errorf("the third beat, with news, says %q: %v", l.stored.Annotations, err)
	}
}

// The Lease asks for a longer interval: the server must learn the longer duration
// before the agent makes it wait.
func TestAskedInterval(t *testing.T) {
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	l := &leases{stored: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{infrav1.HeartbeatIntervalAnnotation: "100s"},
	}}}
	l.updated = cancel
	h := &heartbeat{
		Leases: l, Namespace: "ns", Name: "h", Holder: "id", Interval: 10 * time.Second, Duration: 40 * time.Second,
		Log: slog.New(slog.DiscardHandler), OnFailure: func(error) {},
	}
	if h.LeaseDuration() != 40*time.Second {
		t.Errorf("before the first heartbeat: %s", h.LeaseDuration())
	}
	h.Run(ctx)
	if *l.stored.Spec.LeaseDurationSeconds != 220 || h.LeaseDuration() != 220*time.Second {
		t.Errorf("the Lease lasts %d s, the agent believes %s; want 220 s", *l.stored.Spec.LeaseDurationSeconds, h.LeaseDuration())
	}
	for asks, want := range map[string]time.Duration{"": 40 * time.Second, "nonsense": 40 * time.Second, "1s": 40 * time.Second, "-1h": 40 * time.Second, "300h": 20*time.Minute + 20*time.Second} {
		h.obey(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.HeartbeatIntervalAnnotation: asks}}})
		if h.LeaseDuration() != want {
			t.Errorf("asked for %q: lasts %s, want %s", asks, h.LeaseDuration(), want)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	resource := schema.GroupResource{Resource: "leases"}
	l := &leases{
		stored:  &coordinationv1.Lease{},
		getErrs: []error{apierrors.NewNotFound(resource, "h")},
	}
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	failures := 0
	l.updated = func() {
		if l.updates == 5 {
			cancel()
		}
	}
	l.errs = []error{apierrors.NewConflict(resource, "h", errors.New("changed"))}
	h := &heartbeat{
		Leases: l, Namespace: "ns", Name: "h", Holder: "id", Interval: 10 * time.Millisecond, Duration: 40 * time.Second,
		Log: slog.New(slog.DiscardHandler), OnFailure: func(error) { failures++ },
	}
	if !h.Last().IsZero() {
		t.Error("a heartbeat before the first")
	}
	began := time.Now().Truncate(time.Microsecond) // as a Lease has it
	h.Run(ctx)
	if l.updates != 5 || l.gets != 3 || failures != 2 {
		t.Errorf("%d updates, %d reads, %d failures; want 5, 3 and 2", l.updates, l.gets, failures)
	}
	spec := l.stored.Spec
	if *spec.HolderIdentity != "id" || *spec.LeaseDurationSeconds != 40 || spec.RenewTime.Time.Before(began) || spec.AcquireTime == nil {
		t.Errorf("the Lease is %+v", spec)
	}
	if h.Last().Before(began) {
		t.Errorf("the last heartbeat is of %v", h.Last())
	}
}

// An agent that is told to end says so, unless it did not reach the server before.
func TestHeartbeatTakesLeave(t *testing.T) {
	for _, reached := range []bool{true, false} {
		ctx, cancel := context.WithCancel(poll.Context(t))
		defer cancel()
		l := &leases{stored: &coordinationv1.Lease{}, updated: cancel}
		if !reached {
			l.errs = []error{errors.New("no route to host")}
		}
		h := &heartbeat{
			Leases: l, Namespace: "ns", Name: "h", Holder: "id", Interval: 10 * time.Second, Duration: 40 * time.Second, Farewell: 10 * time.Second,
			Log: slog.New(slog.DiscardHandler), OnFailure: func(error) {},
		}
		h.Run(ctx)
		switch seconds := l.stored.Spec.LeaseDurationSeconds; {
		case reached && (l.updates != 2 || *seconds != 10):
			t.Errorf("%d renewals, the last one counts for %d s; want 2 and 10 s", l.updates, *seconds)
		case !reached && l.updates != 1:
			t.Errorf("%d renewals, want none after the one that failed", l.updates)
		case h.LeaseDuration() != 40*time.Second:
			t.Errorf("the agent counts as away after %s for itself", h.LeaseDuration())
		}
	}
}

// TestSpread: renewals fall out of step, and never come late.
func TestSpread(t *testing.T) {
	const interval = 80 * time.Second
	seen := map[time.Duration]bool{}
	for range 100 {
		wait := spread(interval)
		if wait > interval || wait < interval*9/10 {
			t.Fatalf("a wait of %s for an interval of %s", wait, interval)
		}
		seen[wait] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}
