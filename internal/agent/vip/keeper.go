package vip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

// Timing of the election; docs/design/vip.md has the sum. A holder drops the
// address RenewDeadline after it sent the last renewal that succeeded, and the
// kernel does at most a second later should the agent be dead. Others wait for
// LeaseDuration from when they saw that renewal, which is later.
const (
	LeaseDuration = 6 * time.Second
	RenewDeadline = 4 * time.Second
	// maxLeaseDuration bounds the duration that another host, or somebody else, wrote into the Lease.
	maxLeaseDuration = time.Minute
	// renewInterval is the time between renewals, lookInterval that between looks
	// at a Lease of somebody else and between tries that fail.
	renewInterval = time.Second
	lookInterval  = 500 * time.Millisecond
	// requestTimeout bounds the requests of one round.
	requestTimeout = 2 * time.Second
	// initialLifetime of the address before there is an API server to hold an
	// election on. It is that of an elected host: when the agent dies during
	// kubeadm init, the address is gone before another host can be elected.
	initialLifetime = RenewDeadline
	// vacancy is how long an address that another machine had must be without an answer before it
	// is added without an election, which needs up to 10 s.
	vacancy = 10 * time.Second
	// patience is how long a host may fail to look at the Lease unnoticed.
	patience = 30 * time.Second
)

// The address is announced in each of the first rounds, since a switch may lose
// one frame, and then seldom. As seldom the neighbours are asked who else has it.
const (
	earlyAnnouncements = 3
	announceEvery      = 30
)

// Server is the API server of this host.
type Server interface {
	// Ready returns an error unless the server says that it is ready to serve.
	Ready(ctx context.Context) error
	// Lease returns the Lease of the election, which may be a little out of date.
	// It makes the Lease, without a holder, when there is none.
	Lease(ctx context.Context) (*coordinationv1.Lease, error)
	// UpdateLease fails with a conflict when the Lease has changed meanwhile.
	UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	// Seal returns what only a control-plane host can make of a message, the same on each; empty on a host that cannot.
	Seal(message string) string
	// Serves returns a *PortError unless this host's API server answers at the port, and
	// Answers an error unless an API server of the cluster answers at the endpoint. Both may
	// be called concurrently with the other methods.
	Serves(ctx context.Context, port uint16) error
	Answers(ctx context.Context, endpoint netip.AddrPort) error
}

// Candidate is what this host may do about an address.
type Candidate struct {
	// Address to hold; the zero address for none.
	Address netip.Addr
	// Port of the control-plane endpoint; 0 when it is not known.
	Port uint16
	// Identity of this host and claim in the Lease.
	Identity string
	// Initializes is set while the host makes the control plane: it may hold the
	// address without an election.
	Initializes bool
	// Leaving is set while the host is being reset: it keeps what it holds as
	// long as its API server lives, and takes nothing.
	Leaving bool
}

// Keeper holds the address while this host is elected. Its methods may be called
// concurrently.
type Keeper struct {
	Holder Holder
	Server Server
	// Candidate is asked in each round.
	Candidate func() Candidate
	// Now is the clock; it must be monotonic.
	Now func() time.Time
	Log *slog.Logger

	mu        sync.Mutex
	candidate Candidate
	// initial is set while the address is held without an election.
	initial bool
	// seen is the newest known Lease, since when it is unchanged for this host.
	seen  *coordinationv1.Lease
	since time.Time
	// known is since when this host has looked at this Lease, term the newest of its terms.
	known time.Time
	term  int32
	// written are the renewals of the last seconds that this host sent, and the one that the Lease had when the agent
	// started and found the address. They tell this host from another of its name and generation.
	written []renewal
	// leading is set while the Lease is this host's; renewed is when the last
	// renewal that succeeded was sent.
	leading bool
	renewed time.Time
	// yields is until when this host leaves the Lease to others.
	yields time.Time
	rounds int
	// duplicate is the MAC address of another machine that had the address when it was
	// last probed for; empty when none had.
	duplicate string
	// silent is since when no machine answers at an address that another one had; see seekVacancy.
	silent time.Time
	// mac is the MAC address of the interface for the address.
	mac string
	// endpoint says whether the API server answers at the control-plane endpoint.
	endpoint endpoint
	// problem is what stands in the way, troubled since when something does.
	problem  string
	troubled time.Time
	observer observer
}

// Run keeps the address until the context ends. It leaves the address to the
// kernel then: an agent that is back before the end of its lifetime goes on.
func (k *Keeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for backoff.Sleep(ctx, k.checkEndpoint(ctx)) {
		}
	})
	for backoff.Sleep(ctx, k.round(ctx)) {
	}
}

// HoldForInit takes the address before there is an API server, for the host that makes the
// control plane. The host keeps it until the first election, and no longer than its
// Candidate says so. It refuses where there is a control plane or another holder.
func (k *Keeper) HoldForInit(ctx context.Context, ip netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follow()
	defer k.publish()
	if !k.candidate.Initializes || k.candidate.Address != ip {
		return fmt.Errorf("this host does not make the control plane of %s: it takes the address only when it is elected", ip)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := k.Server.Lease(ctx); !errors.Is(err, ErrNoControlPlane) {
		return fmt.Errorf("this host has a control plane already, which elects the holder of %s", ip)
	}
	if err := errors.Join(k.seekVacancy(ip), k.conflict()); err != nil {
		return err
	}
	if err := k.hold(ip, k.Now().Add(initialLifetime)); err != nil {
		return err
	}
	// Of two machines that probed at the same time neither found the other.
	if err := errors.Join(k.seekDuplicate(ip), k.conflict()); err != nil {
		return errors.Join(err, k.Holder.Release(ip))
	}
	k.initial = true
	return nil
}

// Release removes the address. The Candidate must be without one by now.
func (k *Keeper) Release(ip netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follow()
	return k.Holder.Release(ip)
}

// HandOver gives the address to another host before the API server of this one stops for a
// while. Others take it within a second; when none does, this host takes it back. It does
// nothing on a host that does not hold the address.
func (k *Keeper) HandOver(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follow()
	if !k.leading {
		return
	}
	if k.drop("the API server of this host is about to stop") {
		k.release(ctx)
	}
	k.yields = k.Now().Add(LeaseDuration + renewInterval)
	k.publish()
}

// Held reports whether the host has the address.
func (k *Keeper) Held(ip netip.Addr) (bool, error) { return k.Holder.Held(ip) }

// round does one step and returns the time until the next.
func (k *Keeper) round(ctx context.Context) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follow()
	defer k.publish()
	if !k.candidate.Address.IsValid() {
		return renewInterval
	}
	if k.initial {
		k.note(k.add(k.candidate.Address, k.Now().Add(initialLifetime)))
	}
	if k.leading {
		k.renew(ctx)
	} else {
		k.stand(ctx)
	}
	if k.leading && k.problem == "" {
		return renewInterval
	}
	return lookInterval
}

// follow takes over what the host may do now. Of another address or claim nothing
// that is known counts any more.
func (k *Keeper) follow() {
	c := k.Candidate()
	if c.Address != k.candidate.Address || c.Identity != k.candidate.Identity {
		k.drop("it is no longer this host's to hold")
		k.seen, k.written, k.silent, k.problem, k.duplicate, k.mac, k.endpoint = nil, nil, time.Time{}, "", "", "", endpoint{}
	}
	if c.Port != k.candidate.Port {
		k.endpoint = endpoint{}
	}
	k.candidate = c
	if k.initial && !c.Initializes {
		k.drop("the bootstrap is over, and no election was held")
	}
}

// drop gives up the address and reports whether it is gone.
func (k *Keeper) drop(why string) bool {
	if !k.leading && !k.initial {
		return true
	}
	k.leading, k.initial, k.duplicate, k.endpoint = false, false, "", endpoint{}
	k.observer.losses.Add(1)
	k.Log.Warn("giving up the virtual IP", "address", k.candidate.Address, "reason", why)
	err := k.Holder.Release(k.candidate.Address)
	if err != nil {
		k.Log.Error("cannot remove the virtual IP; the kernel does at the end of its lifetime", "address", k.candidate.Address, "err", err)
	}
	return err == nil
}

// take puts the address on an interface for the time until the deadline.
func (k *Keeper) take() {
	ip := k.candidate.Address
	err := k.add(ip, k.renewed.Add(RenewDeadline))
	if err == nil && (k.rounds < earlyAnnouncements || k.rounds%announceEvery == 0) {
		err = k.Holder.Announce(ip)
	}
	if err == nil && k.rounds%announceEvery == announceEvery-1 {
		// This host keeps the address in any case: it is the elected one, and giving way
		// would hand the cluster to whoever answers.
		err = k.seekDuplicate(ip)
	}
	k.rounds++
	if err == nil {
		err = k.conflict()
	}
	k.note(err)
}

// add adds the address until the deadline unless another machine has it, or sets its lifetime again.
func (k *Keeper) add(ip netip.Addr, deadline time.Time) error {
	held, err := k.Holder.Held(ip)
	if err != nil {
		return err
	}
	if !held {
		if err := errors.Join(k.seekDuplicate(ip), k.conflict()); err != nil {
			return err
		}
	}
	return k.hold(ip, deadline)
}

// hold adds the address for the time that remains until the deadline, since a probe takes time, and the agent
// may be stopped at any moment. Less than a second, the unit of the kernel, is nothing.
func (k *Keeper) hold(ip netip.Addr, deadline time.Time) error {
	lifetime := deadline.Sub(k.Now())
	if lifetime < time.Second {
		return nil
	}
	err := k.Holder.Hold(ip, lifetime)
	if !k.Now().Before(deadline) {
		// The agent was stopped meanwhile, and the lifetime began after that.
		err = errors.Join(err, k.Holder.Release(ip))
	}
	return err
}

// seekVacancy probes for the host that makes a control plane. An address that another machine had
// must be without an answer for longer than a control plane needs for an election:
// otherwise a new cluster gets the address of a running one at its next failover.
func (k *Keeper) seekVacancy(ip netip.Addr) error {
	former := k.duplicate
	if err := k.seekDuplicate(ip); err != nil {
		return err
	}
	switch {
	case k.duplicate != "":
		k.silent = time.Time{}
	case former != "":
		if k.silent.IsZero() {
			k.silent = k.Now()
		}
		if k.Now().Sub(k.silent) < vacancy {
			k.duplicate = former
		}
	}
	return nil
}

// seekDuplicate probes for another machine that has the address.
func (k *Keeper) seekDuplicate(ip netip.Addr) error {
	mac, err := k.Holder.Duplicate(ip)
	if err == nil {
		k.duplicate = mac
	}
	return err
}

// conflict is the other machine that has the address as an error; nil when there is none.
func (k *Keeper) conflict() error {
	if k.duplicate == "" {
		return nil
	}
	return &ConflictError{Address: k.candidate.Address, MAC: k.duplicate}
}

// note makes a problem known, and its end. One of a host that does not hold the
// address may pass: its API server is about to start.
func (k *Keeper) note(err error) {
	if err == nil || errors.Is(err, ErrNoControlPlane) {
		k.problem, k.troubled = "", time.Time{}
		return
	}
	if k.troubled.IsZero() {
		k.troubled = k.Now()
	}
	if !k.leading && k.Now().Sub(k.troubled) < patience {
		return
	}
	if k.problem == "" {
		k.Log.Warn("the virtual IP is not in order, trying again", "address", k.candidate.Address, "err", err)
	}
	k.problem = err.Error()
}

// ErrNoControlPlane is returned by a Server of a host that has none (yet).
var ErrNoControlPlane = errors.New("no control plane on this host")

// ConflictError is an address that another machine has. Which machine that is, the
// management plane knows.
type ConflictError struct {
	Address netip.Addr
	MAC     string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%[2]s is in use by another machine (MAC address %[1]s): condition EndpointHeld of the HostCluster names the machine and the remedy", e.MAC, e.Address)
}
