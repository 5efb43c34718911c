package throttle_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/throttle"
)

func TestWait(t *testing.T) {
	const delay = 5 * time.Second
	start := time.Now()
	object := types.NamespacedName{Name: "host-1"}
	d := &throttle.Status{}
	for _, step := range []struct {
		name         string
		at           time.Duration
		inTransition bool
		want         time.Duration
	}{
		{"what does not pass is due", 0, false, 0},
		{"a state that may pass waits", 0, true, delay},
		{"another one waits no longer", 2 * time.Second, true, 3 * time.Second},
		{"what lasts is due", 5 * time.Second, true, 0},
		{"and the next step waits again", 6 * time.Second, true, 4 * time.Second},
		{"the end is due at once", 6 * time.Second, false, 0},
		{"the next time begins anew", 7 * time.Second, true, delay},
	} {
		if got := d.Wait(object, step.inTransition, delay, start.Add(step.at)); got != step.want {
			t.Errorf("%s: wait %s, want %s", step.name, got, step.want)
		}
	}
	if got := d.Wait(object, true, 0, start); got != 0 {
		t.Errorf("without a delay: wait %s", got)
	}
}

// The more objects are on their way, the longer each waits; one that is the last of
// many waits as long as it would have among them.
func TestWaitOfMany(t *testing.T) {
	const delay, many = 5 * time.Second, 1000
	start := time.Now()
	name := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }
	d := &throttle.Status{}
	for i := range many {
		d.Wait(name(i), true, delay, start)
	}
	if got := d.Wait(name(0), true, delay, start.Add(delay)); got != many*throttle.Spacing-delay {
		t.Errorf("one of %d waits %s", many, got)
	}
	for i := range many - 1 {
		d.Wait(name(i+1), false, delay, start.Add(2*delay))
	}
	if got := d.Wait(name(0), true, delay, start.Add(2*delay)); got != many*throttle.Spacing-2*delay {
		t.Errorf("the last of %d waits %s", many, got)
	}
	if got := d.Wait(name(0), true, delay, start.Add(many*throttle.Spacing)); got != 0 {
		t.Errorf("what lasts waits %s", got)
	}
	if got := d.Wait(name(0), true, delay, start.Add(many*throttle.Spacing)); got != delay {
		t.Errorf("alone it waits %s", got)
	}
}
