package reconciler_test

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

func TestSince(t *testing.T) {
	begin := time.Now()
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	var values reconciler.Observed[string, int]
	for i, step := range []struct {
		key   string
		value int
		want  int
	}{
		{"a", 1, 0},
		{"a", 1, 0},
		{"b", 1, 2},
		{"a", 2, 3},
		{"a", 1, 4}, // it was something else meanwhile
		{"b", 1, 2},
	} {
		if got := values.Since(step.key, step.value, at(i)); !got.Equal(at(step.want)) {
			t.Errorf("step %d: since %s, want %s", i, got, at(step.want))
		}
	}
	values.Forget("b")
	if got := values.Since("b", 1, at(9)); !got.Equal(at(9)) {
		t.Errorf("what was forgotten is remembered: %s", got)
	}
}
