package view

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/status"
)

const (
	// maxBeats is how many renewals are kept of each Lease.
	maxBeats = 60
	// lookedAt is for how long a heartbeat that somebody looked at is news.
	lookedAt = time.Minute
)

// Heartbeats keep the last renewals of Leases, by which agents say that they are alive, since the Leases
// are watched. One goroutine may tell it while others look.
type Heartbeats struct {
	// Touch is called for a renewal that somebody looks at: those of a fleet come all the time.
	Touch func()

	mu    sync.Mutex
	known map[client.ObjectKey]*beats
}

type beats struct {
	times []time.Time
	// limit is after how long without one the agent counts as away.
	limit  time.Duration
	looked time.Time
}

// Heartbeat is how an agent has renewed its Lease.
type Heartbeat struct {
	// Last renewal.
	Last time.Time
	// Beats are the times between renewals and the one since the last, the oldest first. The bar of each is
	// as high as the part of the limit that it took, of 10.
	Beats []Beat
	// Missed is how many were longer than the limit.
	Missed int
}

// Beat is the time between two renewals, as a bar.
type Beat struct {
	Role         status.Role
	X, Y, Height int
}

const beatHeight = 10

// Set adds a renewal.
func (h *Heartbeats) Set(o client.Object) {
	lease, ok := o.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return
	}
	h.mu.Lock()
	if h.known == nil {
		h.known = map[client.ObjectKey]*beats{}
	}
	b := h.known[client.ObjectKeyFromObject(lease)]
	if b == nil {
		b = &beats{}
		h.known[client.ObjectKeyFromObject(lease)] = b
	}
	b.limit = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	at, n := lease.Spec.RenewTime.UTC(), len(b.times)
	news := n == 0 || b.times[n-1].Before(at)
	if news {
		b.times = append(b.times[max(0, n-maxBeats):], at)
	}
	news = news && time.Since(b.looked) < lookedAt
	h.mu.Unlock()
	if news && h.Touch != nil {
		h.Touch()
	}
}

// Delete forgets a Lease.
func (h *Heartbeats) Delete(o client.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, client.ObjectKeyFromObject(o))
}

// Clear forgets all.
func (h *Heartbeats) Clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = nil
}

// Quiet implements watch.Quiet: Touch tells of what somebody looks at.
func (h *Heartbeats) Quiet() {}

// Of is the heartbeat of a host, whose Lease has its name; nil when none is known.
func (h *Heartbeats) Of(host client.ObjectKey, now time.Time) *Heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.known[host]
	if b == nil {
		return nil
	}
	b.looked = time.Now()
	v := &Heartbeat{Last: b.times[len(b.times)-1]}
	for i, from := range b.times {
		to, last := now, i+1 == len(b.times)
		if !last {
			to = b.times[i+1]
		}
		took := max(0, to.Sub(from))
		beat := Beat{Role: status.OK, X: i, Height: int(min(beatHeight, 1+took*(beatHeight-1)/max(b.limit, time.Second)))}
		switch {
		case took > b.limit:
			beat.Role = status.Bad
			v.Missed++
		case last:
			// It changes all the time, and is told beside.
			continue
		}
		beat.Y = beatHeight - beat.Height
		v.Beats = append(v.Beats, beat)
	}
	return v
}
