package host

import (
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// heartbeats judges whether agents are alive, as Kubernetes' node controller does with the
// Leases of kubelets: a heartbeat counts from when this process saw it change, by its own
// clock. What time the agent wrote into it says nothing but that it is another one.
//
// The first heartbeat of an agent that a process sees may be from a second ago or a year.
// So a host keeps the connection it had before a restart, until its heartbeat changes or
// the time of a fresh one is over: a dead agent is not brought back, a living one not
// dropped. The zero value is ready for use.
type heartbeats struct {
	mu     sync.Mutex
	agents map[types.NamespacedName]*pulse
}

// pulse is what was seen of one agent.
type pulse struct {
	// renewed is the time in the last heartbeat, zero before the first, and since is
	// when it was seen.
	renewed, since time.Time
	// lasts is how long a heartbeat is fresh, which the agent itself says.
	lasts time.Duration
	// alive is true once a heartbeat was seen to change.
	alive bool
	skew  host.Skew
}

func (p *pulse) fresh(now time.Time) bool { return now.Before(p.since.Add(p.lasts)) }

// judge says what is known of an agent, by its Lease and by whether it was connected when
// it was last judged.
func (b *heartbeats) judge(lease *coordinationv1.Lease, wasConnected bool, now time.Time) (host.Connection, *time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look(lease, now)
	p := b.agents[client.ObjectKeyFromObject(lease)]
	if p.renewed.IsZero() {
		return host.Connection{}, nil
	}
	return host.Connection{
		Connected: (p.alive || wasConnected) && p.fresh(now), LastSeen: p.renewed, Expires: p.since.Add(p.lasts),
	}, p.skew.Told()
}

// note takes in a Lease and says whether that may change how the agent is judged. The
// renewals of an agent that is connected anyway don't.
func (b *heartbeats) note(lease *coordinationv1.Lease, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.look(lease, now)
}

func (b *heartbeats) look(lease *coordinationv1.Lease, now time.Time) (news bool) {
	key := client.ObjectKeyFromObject(lease)
	renewed := time.Time{}
	if lease.Spec.RenewTime != nil && lease.Spec.LeaseDurationSeconds != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	p, known := b.agents[key]
	switch {
	case !known:
		if b.agents == nil {
			b.agents = map[types.NamespacedName]*pulse{}
		}
		p, news = &pulse{renewed: renewed, since: now}, true
		b.agents[key] = p
	case !p.renewed.Equal(renewed):
		news = !p.alive || !p.fresh(now) || renewed.IsZero()
		p.renewed, p.since, p.alive = renewed, now, !renewed.IsZero()
		if p.alive && p.skew.Add(renewed, now) {
			news = true
		}
	}
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	news = news || lasts < p.lasts // its end comes before it was to be looked at again
	p.lasts = lasts
	return news
}

func (b *heartbeats) forget(lease client.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.agents, client.ObjectKeyFromObject(lease))
}

// onHeartbeat notes each renewal when it comes, and wakes the host for those that tell
// something new: its connection, its clock, its answer to a hand-over, or a report that was refused.
func (r *Reconciler) onHeartbeat() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(o client.Object, q queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok {
				r.heartbeats.note(lease, r.Clock.Now())
				wake(lease, q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok1 := e.ObjectOld.(*coordinationv1.Lease)
			after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
			if !ok1 || !ok2 {
				return
			}
			answered := slices.ContainsFunc([]string{infrav1.HandOverReportAnnotation, infrav1.ReportRefusedAnnotation},
				func(a string) bool { return before.Annotations[a] != after.Annotations[a] })
			if r.heartbeats.note(after, r.Clock.Now()) || answered {
				wake(after, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.heartbeats.forget(e.Object)
			wake(e.Object, q)
		},
	}
}
