package serve

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// The plane keeps many small, long-lived objects (schemas of CRDs above all) and
// is idle most of the time. While it works, collecting garbage competes with the
// work; once it rests, memory is worth more than the time of collecting it.
const (
	// gcBusy and gcIdle are percentages of growth between two collections. With
	// Go's 100 the heap that coming up leaves is so scattered that 145 MB of it
	// stay in use for nothing; 30 costs 10 % more time than 50 and saves 25 MB.
	gcBusy = 40
	gcIdle = 25
	// gcLoaded is for work that lasts, as with thousands of machines: at gcBusy a
	// third of it would be collecting. Where a quarter of the machine's memory has room
	// for it, it is up to gcLoadedMost.
	gcLoaded     = 100
	gcLoadedMost = 200
	// tuneInterval is how often the share of CPU time is looked at.
	tuneInterval = 5 * time.Second
	// idleShare of a core, below which the plane rests, and busyShare, above
	// which it works. Between them nothing changes, but that work that lasted is over.
	idleShare = 0.10
	busyShare = 0.30
	// loadedShare of a core, over loadedTicks intervals in a row, is work that lasts.
	// Coming up is over sooner, and so is making a small cluster. A large heap does not
	// wait for the proof.
	loadedShare = 1.0
	loadedTicks = 4
)

// gcTuner is the component that tunes the garbage collector to the work: what GOGC and
// GOMEMLIMIT set for a process. While there is work there is no memory limit, which would
// make a large plane collect all the time.
type gcTuner struct {
	component.Task
	clock   clock.WithTicker
	cpuTime func() (time.Duration, error)
	heap    func() uint64
	set     func(percent int)
	// percent is what is set; loaded counts the intervals of work in a row.
	percent, loaded int
}

// collectorGiven says whether the environment of the plane sets how garbage is collected,
// as https://pkg.go.dev/runtime tells. It holds for the life of the plane then.
func collectorGiven() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

func newGCTuner() *gcTuner {
	return &gcTuner{clock: clock.RealClock{}, cpuTime: processCPUTime, heap: liveHeap, set: newCollector().set}
}

// Name implements component.Component.
func (*gcTuner) Name() string { return "memory" }

// Init implements component.Component.
func (g *gcTuner) Init(context.Context) error {
	g.change(gcBusy)
	return nil
}

// Start implements component.Component.
func (g *gcTuner) Start(context.Context) error {
	ticker := g.clock.NewTicker(tuneInterval)
	g.Go(func(ctx context.Context) error {
		defer ticker.Stop()
		return g.run(ctx, ticker.C())
	})
	return nil
}

// Ready implements component.Component.
func (*gcTuner) Ready(context.Context) error { return nil }

func (g *gcTuner) run(ctx context.Context, tick <-chan time.Time) error {
	at := g.clock.Now()
	before, err := g.cpuTime()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick:
			after, err := g.cpuTime()
			if err != nil {
				return err
			}
			g.observe((after - before).Seconds() / now.Sub(at).Seconds())
			before, at = after, now
		}
	}
}

// observe tunes the collector when the plane has come to rest, has begun to work, or
// goes on working hard.
func (g *gcTuner) observe(share float64) {
	g.loaded++
	if share < loadedShare {
		g.loaded = 0
	}
	switch {
	case g.loaded >= loadedTicks, share > busyShare && g.heap() >= largeHeap:
		g.change(gcLoaded)
	case share < idleShare, share < busyShare && g.percent == gcLoaded:
		g.change(gcIdle)
	case g.percent == gcIdle && share > busyShare:
		g.change(gcBusy)
	}
}

func (g *gcTuner) change(percent int) {
	if g.percent == percent {
		return
	}
	g.percent = percent
	g.set(percent)
	klog.Background().WithName("memory").V(2).Info("Tuned the garbage collector", "percent", percent)
}

func processCPUTime() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the CPU time of the process: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
