package heartbeat

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func (l *leases) UpdateLease(_ context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l.updates++
	defer l.updated()
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	l.stored = lease
	return lease, nil
}

func TestHeartbeat(t *testing.T) {
	resource := schema.GroupResource{Resource: "leases"}
	l := &leases{
		stored:  &coordinationv1.Lease{},
		getErrs: []error{apierrors.NewNotFound(resource, "h")},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	failures := 0
	l.updated = func() {
		if l.updates == 5 {
			cancel()
		}
	}
	l.errs = []error{apierrors.NewConflict(resource, "h", errors.New("changed"))}
	h := &Heartbeat{
		Leases: l, Namespace: "ns", Name: "h", Holder: "id", Interval: 10 * time.Millisecond, Duration: 40 * time.Second,
		Log: slog.New(slog.DiscardHandler), OnFailure: func(error) { failures++ },
	}
	if !h.Last().IsZero() {
		t.Error("a heartbeat before the first")
	}
	h.Run(ctx)
	if l.updates != 5 || l.gets != 3 || failures != 2 {
		t.Errorf("%d updates, %d reads, %d failures; want 5, 3 and 2", l.updates, l.gets, failures)
	}
	spec := l.stored.Spec
	if *spec.HolderIdentity != "id" || *spec.LeaseDurationSeconds != 40 || time.Since(spec.RenewTime.Time) > time.Minute || spec.AcquireTime == nil {
		t.Errorf("the Lease is %+v", spec)
	}
	if time.Since(h.Last()) > time.Minute {
		t.Errorf("the last heartbeat is of %v", h.Last())
	}
}
