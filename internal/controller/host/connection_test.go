package host

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// fresh is how long a heartbeat of these tests is.
const fresh = 40 * time.Second

// machine is one host with a clock of its own, and a manager that looks at it.
type machine struct {
	t     *testing.T
	clock *testclock.FakePassiveClock
	// ahead is by how much the machine's clock is.
	ahead time.Duration
	lease coordinationv1.Lease
	heartbeats
	// connected is what the manager wrote into the status of the Host.
	connected bool
}

func newMachine(t *testing.T, ahead time.Duration) *machine {
	m := &machine{t: t, clock: testclock.NewFakePassiveClock(time.Now()), ahead: ahead}
	m.lease.Name, m.lease.Namespace = "host-1", "ns"
	m.note(&m.lease, m.clock.Now()) // as the manager made it
	return m
}

func (m *machine) pass(d time.Duration) { m.clock.SetTime(m.clock.Now().Add(d)) }

// beat renews the Lease, and says whether the manager has a look at that.
func (m *machine) beat() bool {
	m.lease.Spec.RenewTime = &metav1.MicroTime{Time: m.clock.Now().Add(m.ahead)}
	m.lease.Spec.LeaseDurationSeconds = ptr.To(int32(fresh / time.Second))
	return m.note(&m.lease, m.clock.Now())
}

func (m *machine) want(connected bool, when string) {
	m.t.Helper()
	c, _ := m.judge(&m.lease, m.connected, m.clock.Now())
	if m.connected = c.Connected; m.connected != connected {
		m.t.Errorf("%s: connected = %t, want %t (clock %s ahead)", when, m.connected, connected, m.ahead)
	}
}

// restart begins with a manager that remembers nothing but the status of the Host.
func (m *machine) restart() {
	m.heartbeats = heartbeats{}
	m.note(&m.lease, m.clock.Now())
}

// What an agent's clock says does not matter.
func TestConnectionByTheObserversClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 50 * 365 * 24 * time.Hour} {
		m := newMachine(t, ahead)
		m.want(false, "before the first heartbeat")
		for range 5 {
			m.beat()
			m.want(true, "it renews")
			m.pass(fresh / 4)
		}
		m.beat()
		m.pass(fresh - time.Second)
		m.want(true, "its last heartbeat is fresh")
		m.pass(time.Second)
		m.want(false, "it is dead")
		m.pass(2 * time.Hour)
		m.want(false, "it is dead still")
		m.beat()
		m.want(true, "it is back")
		m.ahead = 0 // somebody set the clock
		m.pass(time.Second)
		m.beat()
		m.pass(fresh - time.Second)
		m.want(true, "its clock was set")
	}
}

// An agent that ends makes its last heartbeat short: the manager looks when that is over.
func TestConnectionOfAnAgentThatTakesLeave(t *testing.T) {
	m := newMachine(t, 0)
	for range 2 { // the second one tells how its clock goes
		m.beat()
		m.want(true, "it renews")
		m.pass(time.Second)
	}
	if m.beat() {
		t.Error("a renewal as any other is news")
	}
	m.lease.Spec.RenewTime, m.lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: m.clock.Now().Add(time.Millisecond)}, ptr.To[int32](10)
	if !m.note(&m.lease, m.clock.Now()) {
		t.Error("that an agent ends is no news")
	}
	m.want(true, "it may be back in a moment")
	m.pass(10 * time.Second)
	m.want(false, "it is away")
}

func TestConnectionAfterARestartOfTheManager(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, away := range []time.Duration{time.Second, time.Hour} {
			dead := newMachine(t, ahead)
			dead.beat()
			dead.want(true, "it lives")
			dead.pass(fresh)
			dead.want(false, "it died")
			dead.pass(away)
			for range 3 {
				dead.restart()
				dead.want(false, "a dead agent after a restart")
				dead.pass(fresh / 2)
				dead.want(false, "a dead agent some time after")
			}
			dead.beat()
			dead.want(true, "it returned after the restart")

			living := newMachine(t, ahead)
			living.beat()
			living.want(true, "it lives")
			living.pass(away)
			living.restart()
			living.want(true, "a living agent after a restart")
			living.pass(fresh - time.Second)
			living.want(true, "the time of its heartbeat is not over")
			living.beat()
			living.pass(fresh - time.Second)
			living.want(true, "it renewed")

			died := newMachine(t, ahead)
			died.beat()
			died.want(true, "it lives")
			died.pass(away)
			died.restart()
			died.want(true, "one that died while the manager was away")
			died.pass(fresh)
			died.want(false, "the time of its heartbeat is over")
		}
	}
	// Of a Host that nobody has judged, nobody knows.
	restored := newMachine(t, 0)
	restored.beat()
	restored.restart()
	restored.want(false, "a Lease out of a backup")
	restored.pass(time.Second)
	restored.beat()
	restored.want(true, "it renews")
}

// The manager looks at what brings an agent back, and drops all other renewals.
func TestRenewalsThatMatter(t *testing.T) {
	m := newMachine(t, time.Hour)
	step := func(what string, want bool) {
		t.Helper()
		if got := m.beat(); got != want {
			t.Errorf("%s: news = %t", what, got)
		}
		m.pass(fresh / 4)
	}
	step("the first heartbeat", true)
	step("the second, which tells the skew", true)
	step("the third", false)
	step("the fourth", false)
	m.pass(fresh)
	step("back", true)
	step("goes on", false)
	m.restart()
	step("the first after a restart", true)
	step("the second, which tells the skew anew", true)
	step("the third", false)
	m.ahead = 0
	step("its clock was set, perhaps", false)
	step("its clock was set", true)
	if _, skew := m.judge(&m.lease, true, m.clock.Now()); skew == nil || *skew != 0 {
		t.Errorf("skew = %v", skew)
	}
	m.forget(&m.lease)
	m.lease.Spec = coordinationv1.LeaseSpec{}
	m.want(false, "the Lease was made anew")
	step("first into that", true)
}

// A report that the API server refuses wakes the manager, however fresh the heartbeat is: doctor goes by
// the condition.
func TestARefusedReportWakesTheHost(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	r := &Reconciler{Clock: clock}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "host-1"}}
	beat := func(annotations map[string]string) int {
		before := lease.DeepCopy()
		clock.SetTime(clock.Now().Add(time.Second))
		lease.Annotations, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = annotations, &metav1.MicroTime{Time: clock.Now()}, ptr.To(int32(40))
		r.onHeartbeat().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: lease.DeepCopy()}, queue)
		woken := queue.Len()
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
		}
		return woken
	}
	for range 3 {
		beat(nil)
	}
	if beat(nil) != 0 {
		t.Error("a renewal wakes the host")
	}
	refused := map[string]string{infrav1.ReportRefusedAnnotation: "addresses: too many"}
	if beat(refused) != 1 || beat(refused) != 0 || beat(nil) != 1 {
		t.Error("want the host woken by the refusal and by its end, once each")
	}
}
