package serve

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// settings reads what stands and puts it back when the test ends.
func gcSettings(t *testing.T) (percent int, limit int64) {
	t.Helper()
	percent = debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent, debug.SetMemoryLimit(-1)
}

func keepGCSettings(t *testing.T) {
	t.Helper()
	percent, limit := gcSettings(t)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

func forcedCollections() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumForcedGC
}

func TestASmallHeapIsCollectedByGrowth(t *testing.T) {
	keepGCSettings(t)
	c := newCollector()
	c.set(starting)
	if percent, limit := gcSettings(t); percent != startingPercent || limit != startingLimit {
		t.Errorf("coming up: percent %d, limit %d, want %d and %d", percent, limit, startingPercent, startingLimit)
	}
	for to, want := range map[mode]int{idle: idlePercent, busy: busyPercent} {
		c.set(to)
		if percent, limit := gcSettings(t); percent != want || limit != math.MaxInt64 {
			t.Errorf("%s: percent %d, limit %d, want %d and none", to, percent, limit, want)
		}
	}
}

func TestALargeHeapAtRestIsLeftAlone(t *testing.T) {
	keepGCSettings(t)
	const live = 2 * largeHeap
	c := &collector{heap: func() uint64 { return live }}
	// Much was allocated since memory was last given back.
	c.returned = runtimeMetric("/gc/heap/allocs:bytes") - live
	before := forcedCollections()
	c.set(idle)
	if percent, limit := gcSettings(t); percent != -1 || limit < live/2 || limit == math.MaxInt64 {
		t.Errorf("percent %d, limit %d: Go collects every two minutes", percent, limit)
	}
	c.set(loaded)
	if percent, limit := gcSettings(t); percent < loadedPercentLeast || limit != math.MaxInt64 {
		t.Errorf("percent %d, limit %d under load", percent, limit)
	}
	c.set(idle)
	if forced := forcedCollections() - before; forced != 1 {
		t.Errorf("%d collections in two rests with nothing allocated between them, want 1: each looks like work", forced)
	}
}

// A large heap that comes to rest twice with little allocated between is not collected
// the second time: a percentage that stood for a moment only would do so.
func TestASecondRestStartsNoCollection(t *testing.T) {
	keepGCSettings(t)
	c := &collector{heap: func() uint64 { return 2 * largeHeap }, returned: runtimeMetric("/gc/heap/allocs:bytes")}
	live := make([][]byte, 64)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	debug.SetGCPercent(300)
	allocate := func(n int) {
		for range n {
			garbage = make([]byte, 1<<20)
		}
	}
	allocate(60) // twice the live heap, of which a quarter may be garbage at rest
	before := collections()
	c.set(idle)
	allocate(10)
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections, want none", n)
	}
	runtime.KeepAlive(live)
}

// garbage keeps allocations from being left out.
var garbage []byte

func collections() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumGC
}

func TestLoadedPercentFollowsTheMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		live, memory uint64
		want         int
	}{
		{live: gib, memory: 24 * gib, want: loadedPercentMost},
		{live: 3 * gib, memory: 24 * gib, want: loadedPercentLeast},
		{live: 2 * gib, memory: 20 * gib, want: 150},
		{live: gib, memory: 4 * gib, want: loadedPercentLeast},
		{live: 0, memory: 4 * gib, want: loadedPercentLeast},
		{live: gib, memory: 0, want: loadedPercentLeast},
	} {
		if got := loadedPercent(c.live, c.memory); got != c.want {
			t.Errorf("%d MiB live of %d MiB: %d, want %d", c.live>>20, c.memory>>20, got, c.want)
		}
	}
}
