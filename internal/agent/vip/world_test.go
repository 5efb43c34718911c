package vip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// tick is the resolution of a world's time.
const tick = 100 * time.Millisecond

// world is a control plane of several hosts with one clock and one Lease.
type world struct {
	t     *testing.T
	now   time.Time
	lease *coordinationv1.Lease
	// history holds every version of the Lease, with the time it was written.
	history []version
	hosts   []*machine
	// foreign answers for the address although it is no control-plane host.
	foreign string
	// lossy is a network on which no probe is answered: only the Lease keeps hosts apart.
	lossy bool
}

type version struct {
	at    time.Time
	lease *coordinationv1.Lease
}

// machine is one host: its agent, API server and network.
type machine struct {
	world     *world
	name      string
	keeper    *Keeper
	candidate Candidate
	next      time.Time
	// check is when the agent checks the endpoint next.
	check time.Time
	// dead is a host without power, hung an agent that does nothing.
	dead, hung bool
	// down is an API server that does not answer, unready one that says so.
	down, unready bool
	// port of the API server; deaf is one that does not listen at the address.
	port uint16
	deaf bool
	// blank is a host without a control plane.
	blank bool
	// cut is a host that reaches no other: etcd has no quorum, no ARP arrives.
	cut bool
	// lag is how old the answers of the API server's cache are.
	lag time.Duration
	// loseAnswers makes every write succeed without the agent hearing of it.
	loseAnswers bool
	// expires is when the kernel removes the address; zero when it is not there.
	expires   time.Time
	announced int
	// probing is how long a probe takes; added is called when an address was added.
	probing time.Duration
	added   func()
}

func newWorld(t *testing.T, hosts int) *world {
	w := &world{t: t, now: time.Unix(1_000_000, 0)}
	for i := range hosts {
		w.add(fmt.Sprintf("host-%d", i+1))
	}
	return w
}

func (w *world) add(name string) *machine {
	m := &machine{world: w, name: name, candidate: Candidate{Address: virtual, Port: 8443, Identity: name + "_1"}, port: 8443}
	m.start()
	w.hosts = append(w.hosts, m)
	return m
}

// start starts a new agent, which knows nothing.
func (m *machine) start() {
	log := slog.New(slog.NewTextHandler(m, &slog.HandlerOptions{Level: slog.LevelInfo}))
	m.keeper = &Keeper{
		Holder: Holder{Network: m, Log: log}, Server: m, Log: log,
		Candidate: func() Candidate { return m.candidate }, Now: func() time.Time { return m.world.now },
	}
	m.next, m.check = m.world.now, m.world.now
}

// Write implements io.Writer for the log of the agent.
func (m *machine) Write(p []byte) (int, error) {
	m.world.t.Logf("%6.1fs %s %s", m.world.now.Sub(time.Unix(1_000_000, 0)).Seconds(), m.name, p)
	return len(p), nil
}

// run lets time pass, and checks at each tick that nobody shares the address.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(tick) {
		for _, m := range w.hosts {
			if !m.expires.IsZero() && !w.now.Before(m.expires) {
				m.expires = time.Time{}
			}
		}
		for _, m := range w.hosts {
			if !m.dead && !m.hung && !w.now.Before(m.next) {
				m.next = w.now.Add(m.keeper.round(w.t.Context()))
			}
			if !m.dead && !m.hung && !w.now.Before(m.check) {
				m.check = w.now.Add(m.keeper.checkEndpoint(w.t.Context()))
			}
		}
		if held := w.holders(); len(held) > 1 {
			w.t.Fatalf("%s hold the address at the same time", held)
		}
	}
}

// until lets time pass until ok, and returns how long it took.
func (w *world) until(limit time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	begin := w.now
	for !ok() {
		if w.now.Sub(begin) > limit {
			w.t.Fatalf("not %s after %s; %s holds the address", what, limit, w.holders())
		}
		w.run(tick)
	}
	return w.now.Sub(begin)
}

// holders are the names of the hosts that have the address.
func (w *world) holders() (names []string) {
	for _, m := range w.hosts {
		if !m.dead && !m.expires.IsZero() {
			names = append(names, m.name)
		}
	}
	return names
}

// holder returns the one holder, or nil.
func (w *world) holder() *machine {
	for _, m := range w.hosts {
		if !m.dead && !m.expires.IsZero() {
			return m
		}
	}
	return nil
}

// other is a host without the address.
func (w *world) other() *machine {
	for _, m := range w.hosts {
		if !m.holds() {
			return m
		}
	}
	return nil
}

func (m *machine) holds() bool { return m.world.holder() == m }

var errDown = errors.New("connection refused")

// quorum reports whether the host belongs to a majority of etcd's members.
func (m *machine) quorum() bool {
	if m.cut {
		return len(m.world.hosts) == 1
	}
	up := 0
	for _, o := range m.world.hosts {
		if !o.dead && !o.cut {
			up++
		}
	}
	return up > len(m.world.hosts)/2
}

// Ready implements Server.
func (m *machine) Ready(context.Context) error {
	switch {
	case m.blank:
		return ErrNoControlPlane
	case m.down:
		return errDown
	case m.unready || !m.quorum():
		return errors.New("readyz: etcd failed")
	}
	return nil
}

// Serves implements Server.
func (m *machine) Serves(_ context.Context, port uint16) error {
	if m.blank {
		return ErrNoControlPlane
	}
	if m.port != port {
		return &PortError{Port: port, Listens: strconv.Itoa(int(m.port)), Err: errDown}
	}
	return nil
}

// Answers implements Server. The API server listens at all addresses of the host, unless it
// is deaf.
func (m *machine) Answers(_ context.Context, endpoint netip.AddrPort) error {
	switch {
	case m.blank:
		return ErrNoControlPlane
	case m.down || m.deaf || m.port != endpoint.Port() || !m.holds():
		return errDown
	}
	return nil
}

// Seal implements Server. The hosts of a control plane have one key.
func (m *machine) Seal(message string) string { return "sealed: " + message }

// Lease implements Server.
func (m *machine) Lease(context.Context) (*coordinationv1.Lease, error) {
	if m.blank {
		return nil, ErrNoControlPlane
	}
	if m.down {
		return nil, errDown
	}
	if m.world.lease == nil {
		if !m.quorum() {
			return nil, errDown
		}
		m.world.store(&coordinationv1.Lease{})
		m.world.lease.UID = types.UID(strconv.Itoa(len(m.world.history)))
	}
	found := m.world.history[0].lease
	for _, v := range m.world.history {
		if !v.at.After(m.world.now.Add(-m.lag)) {
			found = v.lease
		}
	}
	return found.DeepCopy(), nil
}

// UpdateLease implements Server.
func (m *machine) UpdateLease(_ context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	switch {
	case m.blank || m.down || !m.quorum():
		return nil, errDown
	case m.world.lease == nil:
		return nil, apierrors.NewNotFound(resource, "lease")
	case ptr.Deref(lease.Spec.LeaseTransitions, 0) < 0:
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Lease"}, "lease", nil)
	case lease.ResourceVersion != m.world.lease.ResourceVersion:
		return nil, apierrors.NewConflict(resource, "lease", errors.New("the object has been modified"))
	}
	m.world.store(lease)
	if m.loseAnswers {
		return nil, context.DeadlineExceeded
	}
	return m.world.lease.DeepCopy(), nil
}

func (w *world) store(lease *coordinationv1.Lease) {
	w.lease = lease.DeepCopy()
	w.lease.ResourceVersion = strconv.Itoa(len(w.history) + 1)
	w.history = append(w.history, version{w.now, w.lease})
}

// deleteLease is what an operator may do.
func (w *world) deleteLease() { w.lease, w.history = nil, nil }

// editLease is what an operator may do, too.
func (w *world) editLease(change func(*coordinationv1.LeaseSpec)) {
	if w.lease != nil {
		lease := w.lease.DeepCopy()
		change(&lease.Spec)
		w.store(lease)
	}
}

// imitate gives the Lease back as its holder does, with all that an operator can read of an earlier version of it.
func (w *world) imitate(earlier *coordinationv1.Lease, alsoTerm bool) {
	if w.lease == nil {
		return
	}
	lease := w.lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = nil, nil, ptr.To(givenBack)
	lease.Annotations = earlier.Annotations
	if alsoTerm {
		lease.Spec.LeaseTransitions, lease.Spec.AcquireTime = earlier.Spec.LeaseTransitions, earlier.Spec.AcquireTime
	}
	w.store(lease)
}

// Addresses implements Network.
func (m *machine) Addresses() ([]network.Address, error) {
	all := []network.Address{eth0}
	if !m.expires.IsZero() {
		all = append(all, network.Address{Link: eth0.Link, Prefix: host(virtual)})
	}
	return all, nil
}

// DefaultLink implements Network.
func (m *machine) DefaultLink(bool) (string, error) { return eth0.Link, nil }

// Add implements Network. The kernel is up to a second late.
func (m *machine) Add(_ string, _ netip.Prefix, lifetime time.Duration) error {
	m.expires = m.world.now.Add(lifetime.Truncate(time.Second) + time.Second - tick)
	if m.added != nil {
		m.added()
	}
	return nil
}

// Remove implements Network.
func (m *machine) Remove(string, netip.Prefix) error {
	m.expires = time.Time{}
	return nil
}

// Announce implements Network.
func (m *machine) Announce(string, netip.Addr) error {
	m.announced++
	return nil
}

// MAC implements Network.
func (m *machine) MAC(string) string { return m.name }

// Probe implements Network.
func (m *machine) Probe(string, netip.Addr) (string, error) {
	m.world.now = m.world.now.Add(m.probing)
	if m.cut || m.world.lossy {
		return "", nil
	}
	for _, o := range m.world.hosts {
		if o != m && !o.dead && !o.cut && !o.expires.IsZero() {
			return o.name, nil
		}
	}
	return m.world.foreign, nil
}
