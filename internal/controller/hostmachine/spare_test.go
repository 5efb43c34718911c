package hostmachine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// Of four hosts the control plane needs three. Workers that choose at the same time, each with
// another one in mind, reserve one of them in all.
func TestRacingWorkersReserveWhatIsSpare(t *testing.T) {
	const hosts = 4
	var free []*infrav1.Host
	for i := range hosts {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{"name": fmt.Sprint(i)}}}
		h.Status.BootID, h.Status.CleanProof, h.Status.Inventory.Architecture = "boot", &infrav1.CleanProof{}, "amd64"
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
		h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		free = append(free, h)
	}
	for round := range 100 {
		r := &Reconciler{Clock: testclock.NewFakeClock(time.Now())}
		var reserved sync.Map
		var wg sync.WaitGroup
		for i := range hosts {
			request := placement.Request{Ahead: make([]placement.Request, hosts-1)}
			request.Placement.Preferred = []infrav1.PreferredHosts{{Weight: 1, HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": fmt.Sprint(i)}}}}
			requirements, err := placement.Parse(request)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if h, _ := r.reserveSpare(query{placement.Of(free...), requirements}, map[*infrav1.Host]bool{}); h != nil {
					reserved.Store(h.Name, true)
				}
			})
		}
		wg.Wait()
		var names []any
		reserved.Range(func(name, _ any) bool { names = append(names, name); return true })
		if len(names) != 1 {
			t.Fatalf("round %d: hosts %v are reserved, want one", round, names)
		}
	}
}

// lateClock calls meanwhile at its last call.
type lateClock struct {
	clock.Clock
	calls, last int
	meanwhile   func()
}

func (c *lateClock) Now() time.Time {
	if c.calls++; c.calls == c.last {
		c.meanwhile()
	}
	return c.Clock.Now()
}

// A host that a machine of another Cluster reserves between the choice and the reservation stays with that one.
func TestChosenHostIsReservedMeanwhile(t *testing.T) {
	requirements, err := placement.Parse(placement.Request{})
	if err != nil {
		t.Fatal(err)
	}
	hosts := placement.Of(aHost("a"), aHost("b"))
	reserve := func(late *lateClock, r *Reconciler) string {
		late.Clock, r.Clock = testclock.NewFakeClock(time.Now()), late
		h, _ := r.reserveSpare(query{hosts, requirements}, map[*infrav1.Host]bool{})
		if h == nil {
			return ""
		}
		return h.Name
	}
	alone := &lateClock{}
	best := reserve(alone, &Reconciler{})
	other := map[string]string{"a": "b", "b": "a"}[best]
	r := &Reconciler{}
	late := &lateClock{last: alone.calls}
	late.meanwhile = func() { r.reservations.begin(freeHostOf(aHost(best)), late.Clock.Now()) }
	if got := reserve(late, r); got == "" || got != other {
		t.Errorf("reserved %q, want %q: %q is another machine's", got, other, best)
	}
}
