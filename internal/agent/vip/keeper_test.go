package vip

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// settled is a control plane of three whose address is held.
func settled(t *testing.T) *world {
	w := newWorld(t, 3)
	// A new Lease tells nothing about who has the address, so all wait once.
	w.until(LeaseDuration+2*time.Second, "held", func() bool { return w.holder() != nil })
	w.run(20 * time.Second)
	return w
}

// bounds are what docs/design/vip.md promises without the time of the API.
const (
	takeoverLimit = 8 * time.Second
	handoverLimit = 6 * time.Second
)

func TestTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*machine)
		limit time.Duration
	}{
		"power cut":                      {func(m *machine) { m.dead = true }, takeoverLimit},
		"network cut":                    {func(m *machine) { m.cut = true }, takeoverLimit},
		"API server is gone":             {func(m *machine) { m.down = true }, takeoverLimit},
		"API server is unhealthy":        {func(m *machine) { m.unready = true }, handoverLimit},
		"agent hangs":                    {func(m *machine) { m.hung = true }, takeoverLimit},
		"writes succeed without answers": {func(m *machine) { m.loseAnswers = true }, takeoverLimit + RenewDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			old := w.holder()
			c.fault(old)
			took := w.until(c.limit, "taken over", func() bool { return w.holder() != nil && w.holder() != old })
			t.Logf("taken over after %s", took)
			if w.holder().announced == 0 {
				t.Error("the neighbours were not told")
			}
			now := w.holder()
			old.dead, old.cut, old.down, old.unready, old.hung, old.loseAnswers = false, false, false, false, false, false
			w.run(20 * time.Second)
			if w.holder() != now {
				t.Errorf("%s, which came back, took the address from %s", old.name, now.name)
			}
		})
	}
}

// A host whose API server is about to stop gives the address away before that, and takes
// it back when nobody else can have it.
func TestHandOver(t *testing.T) {
	w := settled(t)
	old := w.holder()
	old.keeper.HandOver(t.Context())
	if old.holds() {
		t.Fatal("the address is still there")
	}
	took := w.until(2*time.Second, "taken over", func() bool { return w.holder() != nil })
	t.Logf("taken over after %s", took)
	if w.holder() == old {
		t.Fatal("the host took the address back although others could have it")
	}
	other := w.holder()
	old.keeper.HandOver(t.Context())
	if w.run(20 * time.Second); w.holder() != other {
		t.Errorf("%v have the address, want %s: a host gave away what it does not hold", w.holders(), other.name)
	}

	for _, m := range w.hosts {
		m.down = m != other
	}
	other.keeper.HandOver(t.Context())
	w.until(takeoverLimit, "taken back", other.holds)
}

func TestRestartedAgentKeepsTheAddress(t *testing.T) {
	w := settled(t)
	m := w.holder()
	term := *w.lease.Spec.LeaseTransitions
	for range 20 {
		m.hung = true
		w.run(2 * time.Second)
		m.start()
		m.hung = false
		for range 20 {
			w.run(tick)
			if !m.holds() {
				t.Fatal("the address was away")
			}
		}
	}
	if *w.lease.Spec.LeaseTransitions != term {
		t.Error("the restart made a new term")
	}
}

// A host that gets another name, with or without a restart of its agent, or the name of another host of the control
// plane, never has it beside another. The address answers again as soon as after a takeover.
func TestRenamedHost(t *testing.T) {
	for name, rename := range map[string]func(m, other *machine){
		"the elected, restarted":    func(m, _ *machine) { m.candidate.Identity = "renamed_1"; m.start() },
		"the elected":               func(m, _ *machine) { m.candidate.Identity = "renamed_1" },
		"the elected, as another":   func(m, other *machine) { m.candidate.Identity = other.candidate.Identity },
		"another, as the elected":   func(m, other *machine) { other.candidate.Identity = m.candidate.Identity },
		"another, restarted, as it": func(m, other *machine) { other.candidate.Identity = m.candidate.Identity; other.start() },
		"both, by each other's": func(m, other *machine) {
			m.candidate.Identity, other.candidate.Identity = other.candidate.Identity, m.candidate.Identity
		},
		"both, by each other's, started": func(m, other *machine) {
			m.candidate.Identity, other.candidate.Identity = other.candidate.Identity, m.candidate.Identity
			m.start()
			other.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			w.lossy = true
			for range 5 {
				rename(w.holder(), w.other())
				w.run(time.Second)
				w.until(takeoverLimit, "held", func() bool { return w.holder() != nil })
				w.run(2 * LeaseDuration)
				if w.holder() == nil {
					t.Fatal("nobody holds the address")
				}
			}
		})
	}
}

func TestLoneControlPlaneKeepsTheAddress(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	w.until(LeaseDuration+2*time.Second, "held", m.holds)
	m.cut = true
	w.run(time.Minute)
	if !m.holds() {
		t.Error("a host alone in its control plane gave up the address")
	}
	m.down = true
	w.until(RenewDeadline+2*time.Second, "dropped", func() bool { return !m.holds() })
	m.down = false
	w.until(LeaseDuration+2*time.Second, "held again", m.holds)
}

func TestInitHostHoldsBeforeTheServer(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.candidate, m.blank = Candidate{}, true
	w.run(time.Second)
	m.candidate = Candidate{Address: virtual, Identity: "host-1_1", Initializes: true}
	if err := m.keeper.HoldForInit(t.Context(), virtual); err != nil || !m.holds() {
		t.Fatalf("not held: %v", err)
	}
	for range 600 {
		w.run(tick)
		if !m.holds() {
			t.Fatal("the address was away while kubeadm init ran")
		}
	}
	m.blank = false
	for range 100 {
		w.run(tick)
		if !m.holds() {
			t.Fatal("the address was away at the election")
		}
	}
	if w.lease == nil || *w.lease.Spec.HolderIdentity != "host-1_1" || *w.lease.Spec.LeaseTransitions != 1 {
		t.Errorf("not elected: %+v", w.lease)
	}
	m.candidate.Initializes = false
	w.add("host-2")
	w.run(20 * time.Second)
	if !m.holds() {
		t.Error("a host that joined took the address")
	}
}

// An init that comes to nothing takes the address with it: only the Lease keeps it.
func TestInitWithoutAnElectionGivesTheAddressUp(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.blank, m.candidate.Initializes = true, true
	if err := m.keeper.HoldForInit(t.Context(), virtual); err != nil || !m.holds() {
		t.Fatalf("not held: %v", err)
	}
	w.run(10 * time.Second)
	m.candidate.Initializes = false
	w.until(2*time.Second, "dropped", func() bool { return !m.holds() })
	w.run(20 * time.Second)
	if m.holds() {
		t.Error("the host has taken the address again")
	}
}

// The address of an init host whose agent ended is gone before a host that joined meanwhile can
// be elected, although nobody answers its probes.
func TestInitHostWhoseAgentIsDead(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.blank, m.candidate.Initializes = true, true
	w.run(time.Second)
	if err := m.keeper.HoldForInit(t.Context(), virtual); err != nil || !m.holds() {
		t.Fatalf("not held: %v", err)
	}
	w.run(tick)
	m.hung, m.blank = true, false
	for _, name := range []string{"host-2", "host-3"} {
		w.add(name)
	}
	w.run(tick)
	m.cut = true
	w.until(takeoverLimit, "taken over", func() bool { return w.holder() != nil && w.holder() != m })
}

// Only the host that makes the control plane takes the address without an election, and only
// while there is no control plane.
func TestHoldForInitRefuses(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"a host that joins":            func(m *machine) { m.candidate.Initializes = false },
		"another address":              func(m *machine) { m.candidate.Address = netip.MustParseAddr("10.88.0.201") },
		"a host with a control plane":  func(m *machine) { m.blank = false },
		"a control plane that is down": func(m *machine) { m.blank, m.down = false, true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			m := w.hosts[0]
			m.blank, m.candidate.Initializes = true, true
			change(m)
			if err := m.keeper.HoldForInit(t.Context(), virtual); err == nil || m.holds() {
				t.Errorf("held: %t, error %v", m.holds(), err)
			}
		})
	}
}

func TestInitOfAnElectedClusterYields(t *testing.T) {
	w := settled(t)
	late := w.add("host-4")
	late.candidate.Initializes = true
	late.keeper.initial, late.keeper.candidate = true, late.candidate
	old := w.holder()
	w.run(5 * time.Second)
	if w.holder() != old {
		t.Errorf("%s holds the address", w.holders())
	}
}

func TestAddressInUse(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	w.foreign = "02:00:00:00:00:99"
	m.blank, m.candidate.Initializes = true, true
	conflict := (*ConflictError)(nil)
	if err := m.keeper.HoldForInit(t.Context(), virtual); !errors.As(err, &conflict) || conflict.MAC != w.foreign {
		t.Fatalf("error is %v", err)
	}
	w.run(10 * time.Second)
	if s := m.keeper.Status(); s.DuplicateMAC != w.foreign || s.MAC != m.name || !strings.Contains(s.Problem, w.foreign) {
		t.Errorf("the init host reports %+v", s)
	}
	m.blank, m.candidate.Initializes = false, false
	w.run(time.Minute)
	if m.holds() || m.keeper.Status().Held || m.keeper.Status().Problem == "" {
		t.Errorf("took the address of another machine: %+v", m.keeper.Status())
	}
	w.foreign = ""
	w.until(2*time.Second, "held", m.holds)
	w.run(2 * time.Second)
	if s := m.keeper.Status(); !s.Held || s.Problem != "" || s.DuplicateMAC != "" || s.Term != 1 {
		t.Errorf("status %+v", s)
	}
}

// A new cluster with the endpoint of a running one, whose address is away for seconds at each takeover,
// does not add it then: the running cluster would never get it back.
func TestInitDoesNotTakeTheAddressOfATakeover(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.blank, m.candidate.Initializes = true, true
	conflict := (*ConflictError)(nil)
	for range 10 {
		w.foreign = "02:00:00:00:00:99"
		if err := m.keeper.HoldForInit(t.Context(), virtual); !errors.As(err, &conflict) {
			t.Fatalf("error is %v", err)
		}
		w.foreign = ""
		for begin := w.now; w.now.Sub(begin) < takeoverLimit; w.run(200 * time.Millisecond) {
			if err := m.keeper.HoldForInit(t.Context(), virtual); !errors.As(err, &conflict) || conflict.MAC == "" || m.holds() {
				t.Fatalf("the address was added while its cluster holds an election; error %v", err)
			}
		}
	}
	w.until(vacancy, "held once nobody has it", func() bool { return m.keeper.HoldForInit(t.Context(), virtual) == nil })
	if s := m.keeper.Status(); !s.Held || s.DuplicateMAC != "" || s.Problem != "" {
		t.Errorf("status %+v", s)
	}
}

// Two machines that probe at the same time do not find each other; both give the address up.
func TestInitAtTheSameTime(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	m.blank, m.candidate.Initializes = true, true
	m.added = func() { w.foreign = "02:00:00:00:00:99" }
	conflict := (*ConflictError)(nil)
	if err := m.keeper.HoldForInit(t.Context(), virtual); !errors.As(err, &conflict) || m.holds() {
		t.Errorf("error is %v, and it is there: %t", err, m.holds())
	}
	if w.run(time.Minute); m.holds() {
		t.Error("the host has added the address again")
	}
}

// The lifetime of the address ends at the deadline of the renewal, however long the agent was stopped
// between the two.
func TestLifetimeEndsWithTheRenewal(t *testing.T) {
	t.Run("slow probe", func(t *testing.T) {
		w := newWorld(t, 1)
		m := w.hosts[0]
		m.probing = 2 * time.Second
		m.added = func() {
			if limit := m.keeper.renewed.Add(RenewDeadline + time.Second); m.expires.After(limit) {
				t.Errorf("the kernel removes the address %s after the renewal", m.expires.Sub(m.keeper.renewed))
			}
		}
		w.run(30 * time.Second)
		if !m.holds() {
			t.Error("not held")
		}
	})
	t.Run("stopped", func(t *testing.T) {
		w := newWorld(t, 1)
		m := w.hosts[0]
		m.added = func() { w.now = w.now.Add(RenewDeadline) }
		for range 100 {
			if w.run(tick); m.holds() {
				t.Fatal("an agent that was stopped for longer than its renewal lasts has the address")
			}
		}
	})
}

// A machine that takes the address of a cluster that runs is told about, for as long as it
// answers. The elected host keeps the address.
func TestAddressIsTakenByAnother(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	w.until(20*time.Second, "held", m.holds)
	w.run(time.Minute)
	w.foreign = "02:00:00:00:00:99"
	w.until(time.Minute, "told", func() bool { return strings.Contains(m.keeper.Status().Problem, w.foreign) })
	for range 60 {
		w.run(time.Second)
		if s := m.keeper.Status(); !m.holds() || !s.Held || s.DuplicateMAC != w.foreign || !strings.Contains(s.Problem, w.foreign) {
			t.Fatalf("status %+v", s)
		}
	}
	w.foreign = ""
	w.until(time.Minute, "no longer told", func() bool { return m.keeper.Status().Problem == "" })
	if !m.holds() {
		t.Error("the address is gone")
	}
}

func TestReset(t *testing.T) {
	w := settled(t)
	old := w.holder()
	old.candidate.Leaving = true
	w.run(20 * time.Second)
	if !old.holds() {
		t.Fatal("a host that is being reset gave up the address while its API server lived")
	}
	old.candidate = Candidate{}
	changed := old.keeper.Changed()
	if err := old.keeper.Release(virtual); err != nil || old.holds() {
		t.Fatalf("still held: %v", err)
	}
	w.until(takeoverLimit, "taken over", func() bool { return w.holder() != nil })
	if w.holder() == old {
		t.Fatal("a host that was reset took the address")
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told of the change")
	}
	if s := old.keeper.Status(); s.Address.IsValid() || s.Held {
		t.Errorf("status %+v", s)
	}
	standby := w.holder()
	standby.dead = true
	for _, m := range w.hosts {
		m.candidate.Leaving = true
	}
	w.run(20 * time.Second)
	if w.holder() != nil {
		t.Errorf("%s took the address while it is being reset", w.holders())
	}
}

func givenBackByHand(_ *world, spec *coordinationv1.LeaseSpec) {
	spec.HolderIdentity, spec.RenewTime, spec.LeaseDurationSeconds = nil, nil, ptr.To(givenBack)
}

// Who may edit the Lease reads the seals of terms that have ended: none counts for another term, also if that gets
// the number of the earlier one, or an agent starts meanwhile.
func TestSealOfAnotherTerm(t *testing.T) {
	for name, c := range map[string]struct{ alsoTerm, restart bool }{"of this term": {}, "of that term": {alsoTerm: true}, "and agents start": {true, true}} {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			w.lossy = true
			w.holder().keeper.HandOver(t.Context())
			ended := w.lease
			w.until(2*time.Second, "taken over", func() bool { return w.holder() != nil })
			w.run(time.Minute)
			elected := w.holder()
			elected.hung = true
			w.run(time.Second)
			if c.restart {
				for _, m := range w.hosts {
					if m != elected {
						m.start()
					}
				}
			}
			w.imitate(ended, c.alsoTerm)
			w.until(2*takeoverLimit, "taken over", func() bool { return w.holder() != nil && w.holder() != elected })
		})
	}
}

func TestLeaseChangedByHand(t *testing.T) {
	t.Run("label", func(t *testing.T) {
		w := settled(t)
		m := w.holder()
		lease := w.lease.DeepCopy()
		lease.Labels = map[string]string{"a": "b"}
		w.store(lease)
		for range 50 {
			w.run(tick)
			if !m.holds() {
				t.Fatal("the address was away")
			}
		}
	})
	t.Run("deleted while the agent hangs", func(t *testing.T) {
		w := settled(t)
		old := w.holder()
		old.hung = true
		w.deleteLease()
		w.until(maxLeaseDuration, "held by another", func() bool { return w.holder() != nil && w.holder() != old })
		old.hung = false
		w.run(20 * time.Second)
	})
	t.Run("deleted", func(t *testing.T) {
		w := settled(t)
		w.deleteLease()
		w.until(LeaseDuration+4*time.Second, "held again", func() bool { return w.lease != nil && w.lease.Spec.HolderIdentity != nil && w.holder() != nil })
	})
	for name, c := range map[string]struct {
		edit func(*world, *coordinationv1.LeaseSpec)
		hung bool
	}{
		"emptied":                           {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = nil }},
		"emptied while the agent hangs":     {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = nil }, hung: true},
		"another host":                      {edit: func(w *world, spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &w.other().candidate.Identity }},
		"another host, and the agent hangs": {edit: func(w *world, spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = &w.other().candidate.Identity }, hung: true},
		"a term that cannot grow":           {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.LeaseTransitions = ptr.To[int32](math.MaxInt32) }, hung: true},
		"a duration of years": {edit: func(_ *world, spec *coordinationv1.LeaseSpec) {
			spec.LeaseDurationSeconds = ptr.To[int32](math.MaxInt32)
		}, hung: true},
		"no duration": {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = nil }, hung: true},
		"renewed in a hundred years": {edit: func(_ *world, spec *coordinationv1.LeaseSpec) {
			future := metav1.NewMicroTime(spec.RenewTime.AddDate(100, 0, 0))
			spec.RenewTime, spec.AcquireTime = &future, &future
		}, hung: true},
		"never renewed":            {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.RenewTime, spec.AcquireTime = nil, nil }, hung: true},
		"an earlier term":          {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.LeaseTransitions = ptr.To[int32](0) }, hung: true},
		"no term":                  {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.LeaseTransitions = nil }},
		"as if it were given back": {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { spec.HolderIdentity, spec.RenewTime = nil, nil }, hung: true},
		"exactly as if it were":    {edit: givenBackByHand, hung: true},
		"the same, heard":          {edit: givenBackByHand},
		"emptied entirely":         {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { *spec = coordinationv1.LeaseSpec{} }},
		"entirely, and hung":       {edit: func(_ *world, spec *coordinationv1.LeaseSpec) { *spec = coordinationv1.LeaseSpec{} }, hung: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := settled(t)
			w.lossy = true
			old := w.holder()
			old.hung = c.hung
			w.editLease(func(spec *coordinationv1.LeaseSpec) { c.edit(w, spec) })
			w.run(20 * time.Second)
			w.until(maxLeaseDuration, "held again", func() bool { return w.holder() != nil && (!c.hung || w.holder() != old) })
			old.hung = false
			w.run(20 * time.Second)
			if got := w.lease.Spec.LeaseTransitions; got != nil && *got <= 0 {
				t.Errorf("term %d", *got)
			}
		})
	}
	t.Run("another holder", func(t *testing.T) {
		w := settled(t)
		lease := w.lease.DeepCopy()
		nobody := "nobody"
		lease.Spec.HolderIdentity = &nobody
		w.store(lease)
		w.until(2*time.Second, "dropped", func() bool { return w.holder() == nil })
		w.until(takeoverLimit, "held again", func() bool { return w.holder() != nil })
	})
}

// TestNeverTwoHolders lets faults come and go at random; run checks at every
// tick. It fails when the kernel's lifetime, the deadline of the holder, or the
// local clock of the candidates is left out, and when a Lease that an operator emptied, or on
// which they wrote another host, is acquired immediately.
func TestNeverTwoHolders(t *testing.T) {
	t.Run("hosts", func(t *testing.T) { testNeverTwoHolders(t, 60, func(*world) {}) })
	// A machine that was given up while it had no power, and the one that was enrolled under its name: generations begin anew.
	t.Run("hosts of one name and generation", func(t *testing.T) {
		testNeverTwoHolders(t, 60, func(w *world) {
			for _, m := range w.hosts[1:] {
				m.candidate.Identity = w.hosts[0].candidate.Identity
			}
		})
	})
}

func testNeverTwoHolders(t *testing.T, seeds uint64, begin func(*world)) {
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 3)
		begin(w)
		w.run(15 * time.Second)
		for range 60 {
			m := w.hosts[random.IntN(len(w.hosts))]
			on := random.IntN(2) == 0
			switch random.IntN(12) {
			case 0:
				m.dead = on
				m.expires = time.Time{}
				m.start()
			case 1:
				m.hung = on
			case 2:
				m.start()
			case 3:
				m.down = on
			case 4:
				m.unready = on
			case 5:
				m.cut = on
			case 6:
				m.lag = time.Duration(random.IntN(20)) * time.Second
			case 7:
				m.loseAnswers = on
			case 8:
				if random.IntN(4) == 0 {
					w.deleteLease()
				}
			case 9:
				w.lossy = on
			case 10:
				w.editLease(func(spec *coordinationv1.LeaseSpec) {
					spec.HolderIdentity = []*string{nil, &m.candidate.Identity}[random.IntN(2)]
				})
			case 11:
				if w.lease != nil {
					w.imitate(w.history[random.IntN(len(w.history))].lease, on)
				}
			}
			w.run(time.Duration(random.IntN(12_000)) * time.Millisecond)
		}
		for _, m := range w.hosts {
			m.dead, m.hung, m.down, m.unready, m.cut, m.loseAnswers, m.lag = false, false, false, false, false, false, 0
		}
		w.until(15*time.Second, "held when all is well", func() bool { return w.holder() != nil })
	}
}

func TestOtherAddressStartsAnew(t *testing.T) {
	w := newWorld(t, 1)
	m := w.hosts[0]
	w.until(LeaseDuration+2*time.Second, "held", m.holds)
	m.candidate.Address = netip.MustParseAddr("10.88.0.201")
	m.next = w.now
	w.run(tick)
	if s := m.keeper.Status(); s.Address != m.candidate.Address {
		t.Errorf("status %+v", s)
	}
}
