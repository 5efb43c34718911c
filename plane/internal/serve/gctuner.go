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

// mode is a way of collecting garbage.
type mode string

// The plane keeps many small, long-lived objects (schemas of CRDs above all) and
// is idle most of the time. While it works, collecting garbage competes with the
// work; once it rests, memory is worth more than the time of collecting it.
const (
	// starting is while the plane comes up, and until it first rests. The heap of that time
	// is scattered, and Go's collector does not move objects: what it grows to stays in use
	// for nothing afterwards, 90 MB of it without the limit of starting.
	starting mode = "starting"
	// busy is while there is work.
	busy mode = "busy"
	// idle is at rest.
	idle mode = "idle"
	// loaded is for work that lasts, as with thousands of machines: as busy, a third of it
	// would be collecting.
	loaded mode = "loaded"
)

const (
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
// GOMEMLIMIT set for a process. A memory limit would make a large plane collect all the time:
// there is one at rest, and while a small plane comes up.
type gcTuner struct {
	component.Task
	clock   clock.WithTicker
	cpuTime func() (time.Duration, error)
	heap    func() uint64
	set     func(mode)
	// mode is what is set; worked counts the intervals of work in a row.
	mode   mode
	worked int
}

// collectorGiven says whether the environment of the plane sets how garbage is collected,
// as https://pkg.go.dev/runtime tells. It holds for the life of the plane then.
func collectorGiven() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

func newGCTuner() *gcTuner {
	return &gcTuner{clock: clock.RealClock{}, cpuTime: processCPUTime, heap: liveHeap, set: newCollector().set}
}

func (g *gcTuner) component() component.Component {
	return component.Component{Name: "memory", Init: g.init, Start: g.start, Run: g}
}

func (g *gcTuner) init(context.Context) error {
	g.change(starting)
	return nil
}

func (g *gcTuner) start(context.Context) error {
	ticker := g.clock.NewTicker(tuneInterval)
	g.Go(func(ctx context.Context) error {
		defer ticker.Stop()
		return g.run(ctx, ticker.C())
	})
	return nil
}

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
	g.worked++
	if share < loadedShare {
		g.worked = 0
	}
	switch {
	case g.worked >= loadedTicks, share > busyShare && g.heap() >= largeHeap:
		g.change(loaded)
	case share < idleShare, share < busyShare && g.mode == loaded:
		g.change(idle)
	case g.mode == idle && share > busyShare, g.mode == starting && g.heap() >= startingHeap:
		g.change(busy)
	}
}

func (g *gcTuner) change(to mode) {
	if g.mode == to {
		return
	}
	g.mode = to
	g.set(to)
	klog.Background().WithName("memory").V(2).Info("Tuned the garbage collector", "mode", to)
}

func processCPUTime() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the CPU time of the process: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
