package link

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

// Leases is the part of the API that a heartbeat needs.
type Leases interface {
	GetLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error)
	UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// heartbeat renews the Lease by which the management cluster knows that the agent is
// alive. A renewal costs one small write and never touches the Host. The Host controller
// creates the Lease.
type heartbeat struct {
	Leases          Leases
	Namespace, Name string
	// Holder is written as holderIdentity: the identity of this machine.
	Holder string
	// Interval between renewals and Duration after which the agent counts as away.
	// The Lease can ask for a longer interval (infrav1.HeartbeatIntervalAnnotation).
	Interval, Duration time.Duration
	Log                *slog.Logger
	// OnFailure is called after each failed renewal with its error.
	OnFailure func(error)
	// CertificateExpires is written into the Lease. May be nil.
	CertificateExpires func() time.Time
	// Report is written into the Lease as the agent's answer to a hand-over, unless it
	// is empty. May be nil.
	Report func() string
	// ReportRefused is written into the Lease as what the API server refused of the last report,
	// unless it is empty. May be nil.
	ReportRefused func() string
	// OnRenewed is called after each renewal that the server accepted. May be nil.
	OnRenewed func()
	// OnLease is called with the annotations of each Lease that the server returned.
	// May be nil.
	OnLease func(annotations map[string]string)
	// Wake asks for a renewal now. May be nil.
	Wake <-chan struct{}
	// Farewell is after how long the agent counts as away once it was told to end, so that nobody waits for
	// the whole Duration; long enough for a restart. Not at all when zero.
	Farewell time.Duration

	// untold is the last ReportRefused that the server did not take: a management cluster of an
	// earlier version may not let agents write it, and the heartbeat matters more.
	untold string

	lease *coordinationv1.Lease
	last  atomic.Int64
	// asked is the interval that the Lease asks for; 0 for none.
	asked atomic.Int64
}

// maxInterval bounds what a Lease can ask for.
const maxInterval = 10 * time.Minute

// timing is the interval and the duration that are in force. An agent that was asked for a longer
// interval counts as away after it failed to renew twice.
func (h *heartbeat) timing() (interval, duration time.Duration) {
	asked := time.Duration(h.asked.Load())
	if asked <= h.Interval {
		return h.Interval, h.Duration
	}
	return asked, max(h.Duration, 2*asked+h.Duration/2)
}

// Every is the time between two renewals now.
func (h *heartbeat) Every() time.Duration {
	interval, _ := h.timing()
	return interval
}

// LeaseDuration is after how long without renewal the agent counts as away now.
func (h *heartbeat) LeaseDuration() time.Duration {
	_, duration := h.timing()
	return duration
}

// farewellTimeout is how long the last renewal may take.
const farewellTimeout = 2 * time.Second

// Run renews until the context ends, and once more then.
func (h *heartbeat) Run(ctx context.Context) {
	defer h.takeLeave(ctx)
	retry, failed := backoff.Backoff{}, false
	for {
		// Before the beat, which tells the server a longer duration first.
		interval, _ := h.timing()
		err := h.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := spread(interval)
		if err == nil {
			if failed {
				h.Log.Info("heartbeat is back")
			}
			retry.Reset()
			failed = false
		} else {
			if !failed {
				h.Log.Warn("heartbeat failed, trying again", "err", err)
			}
			failed = true
			h.OnFailure(err)
			wait = min(retry.Next(time.Now()), interval)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-h.Wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// spread makes a wait up to a tenth shorter, at random: agents that all came back at
// once, after the server was away, would renew in step for ever.
func spread(interval time.Duration) time.Duration {
	return interval - rand.N(interval/10+1)
}

// Last returns when the last renewal succeeded; zero before the first.
func (h *heartbeat) Last() time.Time {
	if n := h.last.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// takeLeave renews for the last time, where the renewal before succeeded.
func (h *heartbeat) takeLeave(ctx context.Context) {
	if h.Farewell == 0 || h.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if err := h.renew(ctx, h.Farewell); err != nil {
		h.Log.Warn("cannot tell the management cluster that the agent ends", "err", err)
	}
}

func (h *heartbeat) beat(ctx context.Context) error {
	return h.renew(ctx, math.MaxInt64)
}

// renew renews the Lease, which counts from now for the duration in force, or for less.
func (h *heartbeat) renew(ctx context.Context, atMost time.Duration) error {
	if h.lease == nil {
		lease, err := h.Leases.GetLease(ctx, h.Namespace, h.Name)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the Lease %s/%s does not exist (yet); slipway-manager makes it for each Host: %w", h.Namespace, h.Name, err)
		}
		if err != nil {
			return err
		}
		h.lease = lease
		h.obey(lease)
	}
	lease := h.lease.DeepCopy()
	_, duration := h.timing()
	seconds := int32(min(duration, atMost) / time.Second)
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &h.Holder, &seconds, &now
	if lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &now
	}
	if h.CertificateExpires != nil {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, infrav1.CertificateExpirationAnnotation, h.CertificateExpires().UTC().Format(time.RFC3339))
	}
	annotate(lease, infrav1.HandOverReportAnnotation, h.Report)
	refused := ""
	if h.ReportRefused != nil {
		if refused = h.ReportRefused(); refused == h.untold {
			refused = ""
		}
		annotate(lease, infrav1.ReportRefusedAnnotation, func() string { return refused })
	}
	stored, err := h.Leases.UpdateLease(ctx, lease)
	if err != nil {
		// Whatever is wrong, the next try begins with what the server has.
		h.lease = nil
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			h.untold = refused
		}
		return err
	}
	h.lease = stored
	h.obey(stored)
	h.last.Store(now.UnixNano())
	if h.OnRenewed != nil {
		h.OnRenewed()
	}
	return nil
}

// annotate writes what the agent says, and removes the annotation while that is empty.
func annotate(lease *coordinationv1.Lease, annotation string, says func() string) {
	if says == nil {
		return
	}
	if text := says(); text != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotation, text)
		return
	}
	delete(lease.Annotations, annotation)
}

// obey takes over the interval that the Lease asks for. One that is nonsense asks
// for none.
func (h *heartbeat) obey(lease *coordinationv1.Lease) {
	asked, err := time.ParseDuration(lease.Annotations[infrav1.HeartbeatIntervalAnnotation])
	if err != nil || asked < 0 {
		asked = 0
	}
	h.asked.Store(int64(min(asked, maxInterval)))
	if h.OnLease != nil {
		h.OnLease(lease.Annotations)
	}
}
