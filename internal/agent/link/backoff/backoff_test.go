package backoff

import (
	"context"
	"testing"
	"time"
)

func TestNextGrowsToItsCaps(t *testing.T) {
	b := Backoff{Rand: func() float64 { return 0.999999 }}
	now := time.Unix(0, 0)
	var got []time.Duration
	for range 8 {
		got = append(got, b.Next(now).Round(10*time.Millisecond))
	}
	want := []time.Duration{200, 400, 800, 1600, 3200, 5000, 5000, 5000}
	for i := range want {
		if got[i] != want[i]*time.Millisecond {
			t.Fatalf("wait %d is %v, want %v", i, got[i], want[i]*time.Millisecond)
		}
	}
	if late := b.Next(now.Add(time.Minute)).Round(10 * time.Millisecond); late != 30*time.Second {
		t.Fatalf("after a minute the wait is %v, want 30s", late)
	}
	b.Reset()
	if again := b.Next(now.Add(time.Hour)).Round(10 * time.Millisecond); again != 200*time.Millisecond {
		t.Fatalf("after a success the wait is %v, want 200ms", again)
	}
}

func TestNextIsNeverLessThanHalf(t *testing.T) {
	b := Backoff{Rand: func() float64 { return 0 }}
	if got := b.Next(time.Unix(0, 0)); got != 100*time.Millisecond {
		t.Fatalf("wait is %v, want 100ms", got)
	}
}

func TestSleepEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if Sleep(ctx, time.Hour) {
		t.Fatal("Sleep reported a full wait although the context had ended")
	}
}
