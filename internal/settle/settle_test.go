package settle_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/settle"
)

func TestWait(t *testing.T) {
	const delay = 5 * time.Second
	start := time.Now()
	object := types.NamespacedName{Name: "host-1"}
	d := &settle.Delay{}
	for _, step := range []struct {
		name     string
		at       time.Duration
		onItsWay bool
		want     time.Duration
	}{
		{"what does not pass is due", 0, false, 0},
		{"a state that may pass waits", 0, true, delay},
		{"another one waits no longer", 2 * time.Second, true, 3 * time.Second},
		{"what lasts is due", 5 * time.Second, true, 0},
		{"and the next step waits again", 6 * time.Second, true, 4 * time.Second},
		{"the end is due at once", 6 * time.Second, false, 0},
		{"the next time begins anew", 7 * time.Second, true, delay},
	} {
		if got := d.Wait(object, step.onItsWay, delay, start.Add(step.at)); got != step.want {
			t.Errorf("%s: wait %s, want %s", step.name, got, step.want)
		}
	}
	if got := d.Wait(object, true, 0, start); got != 0 {
		t.Errorf("without a delay: wait %s", got)
	}
}
