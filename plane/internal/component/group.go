package component

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Defaults of a Group. An API server that takes a second to start on an idle machine
// took more than a minute on one with a load of 35: the timeout is for what hangs.
const (
	DefaultReadyTimeout = 4 * time.Minute
	DefaultStopTimeout  = 10 * time.Second
	DefaultPoll         = 20 * time.Millisecond
)

// Group runs components. The zero value of every field but Stages is usable.
type Group struct {
	// Stages are brought up one after the other and stopped in reverse; the
	// components of one stage go up and down side by side.
	Stages [][]Component

	// OnEvent, when set, is told each change. Calls never overlap.
	OnEvent func(Event)

	// OnReady, when set, is called once, when every component is ready. An
	// error from it stops the group.
	OnReady func(ctx context.Context) error

	// ReadyTimeout is how long one component may take from Init to ready.
	// Default DefaultReadyTimeout.
	ReadyTimeout time.Duration

	// StopTimeout is how long the stop of all components may take together.
	// Default DefaultStopTimeout.
	StopTimeout time.Duration

	// Poll is the pause between two calls of Ready. Default DefaultPoll.
	Poll time.Duration

	mu      sync.Mutex
	since   time.Time
	started map[string]bool
}

// Run brings all stages up, then blocks until ctx ends or a component does,
// and stops what was started. It returns nil when ctx ended and everything
// stopped, a *StartError when a component did not come up, an *ExitError when
// one ended by itself, each joined with the errors met while stopping. A Group
// runs once.
func (g *Group) Run(ctx context.Context) error {
	g.defaults()
	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	err := g.up(runCtx, cancel)
	if err == nil && g.OnReady != nil {
		err = g.OnReady(runCtx)
	}
	if err == nil {
		<-runCtx.Done()
	}
	// The death of a component explains every error that follows from it.
	if exit := (*ExitError)(nil); errors.As(context.Cause(runCtx), &exit) {
		err = exit
	} else if ctx.Err() != nil {
		err = nil
	}
	cancel(nil)
	return errors.Join(err, g.down(context.WithoutCancel(ctx)))
}

func (g *Group) defaults() {
	if g.ReadyTimeout == 0 {
		g.ReadyTimeout = DefaultReadyTimeout
	}
	if g.StopTimeout == 0 {
		g.StopTimeout = DefaultStopTimeout
	}
	if g.Poll == 0 {
		g.Poll = DefaultPoll
	}
	g.since = time.Now()
}

func (g *Group) up(ctx context.Context, died context.CancelCauseFunc) error {
	for _, stage := range g.Stages {
		err := sideBySide(stage, func(c Component) error {
			return g.upOne(ctx, c, died)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) upOne(ctx context.Context, c Component, died context.CancelCauseFunc) error {
	ctx, cancel := context.WithTimeout(ctx, g.ReadyTimeout)
	defer cancel()

	steps := []struct {
		phase Phase
		run   func(context.Context) error
	}{
		{PhaseInit, func(ctx context.Context) error { return call(ctx, c.Init) }},
		{PhaseStart, func(ctx context.Context) error { return g.start(ctx, c, died) }},
		{PhaseWait, func(ctx context.Context) error { return g.wait(ctx, c) }},
	}
	for _, s := range steps {
		if s.phase != PhaseWait {
			g.emit(c, s.phase, "")
		}
		err := ctx.Err()
		if err == nil {
			err = s.run(ctx)
		}
		if err != nil {
			g.emit(c, PhaseFailed, err.Error())
			return &StartError{Component: c.Name, Phase: s.phase, Err: err}
		}
	}
	g.emit(c, PhaseReady, "")
	return nil
}

func (g *Group) start(ctx context.Context, c Component, died context.CancelCauseFunc) error {
	// Recorded before the call: a Start that failed half-way is stopped too.
	g.mu.Lock()
	if g.started == nil {
		g.started = map[string]bool{}
	}
	g.started[c.Name] = true
	g.mu.Unlock()
	if err := call(ctx, c.Start); err != nil {
		return err
	}
	if c.Run != nil {
		go func() {
			<-c.Run.Done()
			died(&ExitError{Component: c.Name, Err: c.Run.Err()})
		}()
	}
	return nil
}

// wait polls, as the components' sources of truth are HTTP endpoints and locks
// that offer nothing to wait on.
func (g *Group) wait(ctx context.Context, c Component) error {
	ticker := time.NewTicker(g.Poll)
	defer ticker.Stop()
	var last string
	for {
		err := c.Check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			g.emit(c, PhaseWait, last)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %s: %s", g.ReadyTimeout, last)
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (g *Group) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.StopTimeout)
	defer cancel()
	g.mu.Lock()
	started := maps.Clone(g.started)
	g.since = time.Now()
	g.mu.Unlock()

	var errs []error
	for _, stage := range slices.Backward(g.Stages) {
		running := slices.DeleteFunc(slices.Clone(stage), func(c Component) bool {
			return !started[c.Name]
		})
		errs = append(errs, sideBySide(running, func(c Component) error {
			return g.stopOne(ctx, c)
		}))
	}
	return errors.Join(errs...)
}

func (g *Group) stopOne(ctx context.Context, c Component) error {
	g.emit(c, PhaseStopping, "")
	if c.Run != nil {
		if err := c.Run.Stop(ctx); err != nil {
			g.emit(c, PhaseFailed, err.Error())
			return fmt.Errorf("%s: stopping: %w", c.Name, err)
		}
	}
	g.emit(c, PhaseStopped, "")
	return nil
}

func (g *Group) emit(c Component, phase Phase, reason string) {
	if g.OnEvent == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.OnEvent(Event{Component: c.Name, Phase: phase, Reason: reason, Elapsed: time.Since(g.since)})
}

// sideBySide calls f for every component at once and joins the errors.
func sideBySide(stage []Component, f func(Component) error) error {
	errs := make([]error, len(stage))
	var wg sync.WaitGroup
	for i, c := range stage {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
