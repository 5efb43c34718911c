package supervisor

import (
	"slices"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	var b backoff
	var got []time.Duration
	for _, ran := range []time.Duration{0, time.Hour, 0, time.Minute, 0, 0, 0, 0, 0, 0, calm} {
		got = append(got, b.next(ran))
	}
	want := []time.Duration{minPause, minPause, 2 * minPause, 4 * minPause, 8 * minPause, 16 * minPause, 32 * minPause, 64 * minPause, maxPause, maxPause, minPause}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
