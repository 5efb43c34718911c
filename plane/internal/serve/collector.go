package serve

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"golang.org/x/sys/unix"
)

// Percentages of growth between two collections, by mode. With 30 instead of 25 at rest the
// plane takes 25 MB more.
const (
	startingPercent = 100
	busyPercent     = 40
	idlePercent     = 25
	// Where a quarter of the machine's memory has room for it, it is up to
	// loadedPercentMost.
	loadedPercentLeast = 100
	loadedPercentMost  = 200
)

const (
	// startingLimit is what Go's memory may grow to by a percentage of 100 while the plane
	// comes up, which takes three seconds less than by 40. A live heap of startingHeap
	// leaves too little room below it.
	startingLimit = 380 << 20
	startingHeap  = 256 << 20
	// A heap of largeHeap bytes or more is marked at the cost of seconds, and Go does so
	// every two minutes even if nothing was allocated. At rest it is collected only
	// when it has grown by a half, for which a memory limit stands that is lifted when
	// work begins.
	largeHeap     = 512 << 20
	idleGrowth    = 50
	noMemoryLimit = math.MaxInt64
)

// collector sets what the modes mean to Go's garbage collector.
type collector struct {
	// heap is the live heap.
	heap func() uint64
	// returned is how much had been allocated when memory was last given back.
	returned uint64
}

func newCollector() *collector { return &collector{heap: liveHeap} }

func (c *collector) set(to mode) {
	live := c.heap()
	if to == idle && live >= largeHeap {
		// Not by way of a percentage, which the heap exceeds: that starts a collection.
		c.giveBack(live)
		debug.SetMemoryLimit(int64(mapped() + live*idleGrowth/100))
		debug.SetGCPercent(-1)
		return
	}
	debug.SetMemoryLimit(noMemoryLimit)
	switch to {
	case starting:
		debug.SetMemoryLimit(startingLimit)
		debug.SetGCPercent(startingPercent)
	case busy:
		debug.SetGCPercent(busyPercent)
	case idle:
		debug.SetGCPercent(idlePercent)
		debug.FreeOSMemory()
	case loaded:
		debug.SetGCPercent(loadedPercent(live, totalMemory()))
	}
}

// giveBack returns what is free of a large heap to the machine. That takes a
// collection, which looks like work to who watches the CPU: it is worth it only after
// allocations, or rest and collection would take turns for ever.
func (c *collector) giveBack(live uint64) {
	allocated := runtimeMetric("/gc/heap/allocs:bytes")
	if allocated-c.returned < live/4 {
		return
	}
	debug.FreeOSMemory()
	c.returned = allocated
}

// loadedPercent lets the heap grow to a quarter of the memory, within the bounds of
// the percentages for lasting work.
func loadedPercent(live, memory uint64) int {
	if live == 0 {
		return loadedPercentLeast
	}
	return int(min(max(memory/4*100/live, 100+loadedPercentLeast), 100+loadedPercentMost) - 100)
}

// liveHeap is what the last collection found in use.
func liveHeap() uint64 { return runtimeMetric("/gc/heap/live:bytes") }

// mapped is the memory that Go holds, as a memory limit counts it.
func mapped() uint64 {
	return runtimeMetric("/memory/classes/total:bytes") - runtimeMetric("/memory/classes/heap/released:bytes")
}

func runtimeMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// totalMemory of the machine; 0 when the kernel does not tell.
func totalMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}
