package host

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Connection is what a heartbeat Lease says about an agent.
type Connection struct {
	// Connected is true while the last heartbeat is fresh.
	Connected bool
	// LastSeen is the last heartbeat; zero when there was none.
	LastSeen time.Time
	// Expires is when the last heartbeat stops being fresh.
	Expires time.Time
}

// Connect reads a heartbeat Lease; nil stands for a Lease that doesn't exist. A
// heartbeat is fresh for the lease duration that the agent itself wrote.
func Connect(lease *coordinationv1.Lease, now time.Time) Connection {
	if lease == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return Connection{}
	}
	seen := lease.Spec.RenewTime.Time
	expires := seen.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	return Connection{Connected: now.Before(expires), LastSeen: seen, Expires: expires}
}

// Reconnects says whether the change from one Lease to the next can have brought
// an agent back. All other renewals leave every condition as it is, so that
// controllers can drop them unseen.
func Reconnects(before, after *coordinationv1.Lease) bool {
	if after.Spec.RenewTime == nil {
		return before.Spec.RenewTime != nil
	}
	return !Connect(before, after.Spec.RenewTime.Time).Connected
}
