package vip

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"

	"k8s.io/utils/ptr"
)

// Status is what a Keeper reports.
type Status struct {
	// Address of which the host is a candidate; the zero address for none.
	Address netip.Addr
	// Held is true while the host has the address.
	Held bool
	// Port of the control-plane endpoint; 0 when it is not known.
	Port uint16
	// APIServer says whether the API server answers at the endpoint.
	APIServer Answer
	// Term counts the holders of the address so far; 0 before the first election.
	Term int32
	// MAC is that of the interface for the address; empty when it is not known.
	MAC string
	// DuplicateMAC is that of another machine that has the address; empty when none has.
	DuplicateMAC string
	// Problem is what stands in the way, in words; empty when nothing does.
	Problem string
}

// Counters of a Keeper since the agent started.
type Counters struct {
	// Takeovers counts elections won, Losses how often the address was given up,
	// Failures the renewals that failed.
	Takeovers, Losses, Failures int64
}

// observer is what others may read while a round is under way.
type observer struct {
	takeovers, losses, failures atomic.Int64

	mu      sync.Mutex
	status  Status
	changed chan struct{}
}

// Status returns what the last round found.
func (k *Keeper) Status() Status {
	k.observer.mu.Lock()
	defer k.observer.mu.Unlock()
	return k.observer.status
}

// Counters returns what was counted.
func (k *Keeper) Counters() Counters {
	o := &k.observer
	return Counters{Takeovers: o.takeovers.Load(), Losses: o.losses.Load(), Failures: o.failures.Load()}
}

// Changed returns a channel that is closed at the next change of the status.
func (k *Keeper) Changed() <-chan struct{} {
	k.observer.mu.Lock()
	defer k.observer.mu.Unlock()
	if k.observer.changed == nil {
		k.observer.changed = make(chan struct{})
	}
	return k.observer.changed
}

// publish makes the outcome of a round known.
func (k *Keeper) publish() {
	s := Status{Address: k.candidate.Address, Port: k.candidate.Port, APIServer: k.endpoint.answer, Problem: cmp.Or(k.problem, k.endpoint.problem), DuplicateMAC: k.duplicate}
	if conflict := k.conflict(); s.Problem == "" && conflict != nil {
		s.Problem = conflict.Error()
	}
	if s.Address.IsValid() {
		if k.mac == "" {
			k.mac = k.Holder.MAC(s.Address)
		}
		s.MAC = k.mac
	}
	if k.seen != nil {
		s.Term = ptr.Deref(k.seen.Spec.LeaseTransitions, 0)
	}
	if s.Address.IsValid() && (k.leading || k.initial) {
		s.Held, _ = k.Holder.Held(s.Address)
	}
	o := &k.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == s {
		return
	}
	o.status = s
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}
