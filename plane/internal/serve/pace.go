package serve

import (
	"context"
	"fmt"
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
	// paceInterval is how often the share of CPU time is looked at.
	paceInterval = 5 * time.Second
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

// pace is the component that sets the pace of the garbage collector. While there is
// work there is no memory limit, which would make a large plane collect all the time.
type pace struct {
	component.Task
	clock   clock.WithTicker
	cpuTime func() (time.Duration, error)
	heap    func() uint64
	set     func(percent int)
	// percent is what is set; loaded counts the intervals of work in a row.
	percent, loaded int
}

func newPace() *pace {
	return &pace{clock: clock.RealClock{}, cpuTime: processCPUTime, heap: liveHeap, set: newCollector().set}
}

// Name implements component.Component.
func (*pace) Name() string { return "memory" }

// Init implements component.Component.
func (p *pace) Init(context.Context) error {
	p.change(gcBusy)
	return nil
}

// Start implements component.Component.
func (p *pace) Start(context.Context) error {
	ticker := p.clock.NewTicker(paceInterval)
	p.Go(func(ctx context.Context) error {
		defer ticker.Stop()
		return p.run(ctx, ticker.C())
	})
	return nil
}

// Ready implements component.Component.
func (*pace) Ready(context.Context) error { return nil }

func (p *pace) run(ctx context.Context, tick <-chan time.Time) error {
	at := p.clock.Now()
	before, err := p.cpuTime()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick:
			after, err := p.cpuTime()
			if err != nil {
				return err
			}
			p.observe((after - before).Seconds() / now.Sub(at).Seconds())
			before, at = after, now
		}
	}
}

// observe changes the pace when the plane has come to rest, has begun to work, or
// goes on working hard.
func (p *pace) observe(share float64) {
	p.loaded++
	if share < loadedShare {
		p.loaded = 0
	}
	switch {
	case p.loaded >= loadedTicks, share > busyShare && p.heap() >= largeHeap:
		p.change(gcLoaded)
	case share < idleShare, share < busyShare && p.percent == gcLoaded:
		p.change(gcIdle)
	case p.percent == gcIdle && share > busyShare:
		p.change(gcBusy)
	}
}

func (p *pace) change(percent int) {
	if p.percent == percent {
		return
	}
	p.percent = percent
	p.set(percent)
	klog.Background().WithName("memory").V(2).Info("Set the pace of the garbage collector", "percent", percent)
}

func processCPUTime() (time.Duration, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the CPU time of the process: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
