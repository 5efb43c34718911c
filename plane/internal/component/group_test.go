package component

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errBoom = errors.New("boom")

// fake is a component whose faults can be chosen.
type fake struct {
	Task
	name     string
	log      *journal
	initErr  error
	startErr error
	stopErr  error
	// dies ends the component with an error this long after its start.
	dies time.Duration
	// reasons are what Ready answers before it says yes; "for ever" repeats.
	reasons []string
	// hangs makes Stop wait for its context.
	hangs bool
}

func (f *fake) component() Component {
	return Component{Name: f.name, Init: f.init, Start: f.start, Ready: f.ready, Run: f}
}

func (f *fake) init(context.Context) error {
	f.log.add("init " + f.name)
	return f.initErr
}

func (f *fake) start(context.Context) error {
	f.log.add("start " + f.name)
	if f.startErr != nil {
		return f.startErr
	}
	f.Go(func(ctx context.Context) error {
		if f.dies == 0 {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.dies):
			return errBoom
		}
	})
	return nil
}

func (f *fake) ready(context.Context) error {
	if len(f.reasons) == 0 {
		return nil
	}
	reason := f.reasons[0]
	if reason != "for ever" {
		f.reasons = f.reasons[1:]
	}
	return errors.New(reason)
}

func (f *fake) Stop(ctx context.Context) error {
	f.log.add("stop " + f.name)
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.Join(f.stopErr, f.Task.Stop(ctx))
}

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) String() string { return strings.Join(j.lines, ", ") }

func TestGroupOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		var events []string
		g := &Group{
			Stages: [][]Component{{(&fake{name: "a", log: log, reasons: []string{"disk", "disk", "log"}}).component()}, {(&fake{name: "b", log: log}).component()}},
			OnEvent: func(e Event) {
				events = append(events, strings.TrimSpace(e.Component+" "+string(e.Phase)+" "+e.Reason))
			},
			OnReady: func(context.Context) error {
				log.add("ready")
				cancel()
				return nil
			},
		}
		if err := g.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := log.String(), "init a, start a, init b, start b, ready, stop b, stop a"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		want := []string{
			"a initializing", "a starting", "a waiting to be ready disk", "a waiting to be ready log", "a ready",
			"b initializing", "b starting", "b ready",
			"b stopping", "b stopped", "a stopping", "a stopped",
		}
		if !slices.Equal(events, want) {
			t.Errorf("events:\n%s\nwant:\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestGroupFaults(t *testing.T) {
	tests := map[string]struct {
		before func(a, b, c *fake)
		// journal is what happened; the names of the stage {b, c} are sorted.
		wantLog string
		check   func(t *testing.T, err error)
	}{
		"init fails": {
			before:  func(_, b, _ *fake) { b.initErr = errBoom },
			wantLog: "init a, start a, init b, init c, start c, stop c, stop a",
			check:   wantStartError("b", PhaseInit),
		},
		"start fails half-way: it is stopped too": {
			before:  func(_, b, _ *fake) { b.startErr = errBoom },
			wantLog: "init a, start a, init b, init c, start b, start c, stop b, stop c, stop a",
			check:   wantStartError("b", PhaseStart),
		},
		"first fails: later stages are never touched": {
			before:  func(a, _, _ *fake) { a.startErr = errBoom },
			wantLog: "init a, start a, stop a",
			check:   wantStartError("a", PhaseStart),
		},
		"never ready": {
			before:  func(a, _, _ *fake) { a.reasons = []string{"for ever"} },
			wantLog: "init a, start a, stop a",
			check: func(t *testing.T, err error) {
				if !strings.Contains(err.Error(), "not ready after 4m0s: for ever") {
					t.Errorf("error does not say what was waited for: %v", err)
				}
			},
		},
		"death while running": {
			before:  func(a, _, _ *fake) { a.dies = time.Hour },
			wantLog: "init a, start a, init b, init c, start b, start c, stop b, stop c, stop a",
			check:   wantExitError("a"),
		},
		"death while another one comes up": {
			before: func(a, b, _ *fake) {
				a.dies = 5 * time.Second
				b.reasons = []string{"for ever"}
			},
			wantLog: "init a, start a, init b, init c, start b, start c, stop b, stop c, stop a",
			check:   wantExitError("a"),
		},
		"error while stopping is reported, the rest is stopped": {
			before: func(a, b, _ *fake) {
				a.dies = time.Hour
				b.stopErr = errors.New("stuck")
			},
			wantLog: "init a, start a, init b, init c, start b, start c, stop b, stop c, stop a",
			check: func(t *testing.T, err error) {
				wantExitError("a")(t, err)
				if !strings.Contains(err.Error(), "b: stopping: stuck") {
					t.Errorf("got %v", err)
				}
			},
		},
		"hanging stop is given up": {
			before: func(a, b, _ *fake) {
				a.dies = time.Hour
				b.hangs = true
			},
			wantLog: "init a, start a, init b, init c, start b, start c, stop b, stop c, stop a",
			check: func(t *testing.T, err error) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &journal{}
				a, b, c := &fake{name: "a", log: log}, &fake{name: "b", log: log}, &fake{name: "c", log: log}
				tt.before(a, b, c)
				err := (&Group{Stages: [][]Component{{a.component()}, {b.component(), c.component()}}}).Run(t.Context())
				if err == nil {
					t.Fatal("no error")
				}
				tt.check(t, err)
				if got := sortStage(log.lines); got != tt.wantLog {
					t.Errorf("got  %s\nwant %s", got, tt.wantLog)
				}
				// The hanging fake was never stopped by the group.
				_ = b.Task.Stop(t.Context())
			})
		})
	}
}

func TestGroupStopsWhileComingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := (&Group{Stages: [][]Component{{(&fake{name: "a", log: log, reasons: []string{"for ever"}}).component()}}}).Run(ctx)
		if err != nil {
			t.Errorf("being asked to stop is no error, got %v", err)
		}
		if got, want := log.String(), "init a, start a, stop a"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// sortStage makes the order within the stage {b, c} a defined one.
func sortStage(lines []string) string {
	rank := map[string]int{"init": 0, "start": 1, "stop": 2}
	key := func(line string) int {
		verb, name, _ := strings.Cut(line, " ")
		r := rank[verb] * 10
		if (name == "a") == (verb == "stop") {
			r += 5 // a stops last
		}
		if name == "a" && verb != "stop" {
			r = rank[verb] - 100 // and comes up first
		}
		return r + int(name[0]-'a')
	}
	slices.SortStableFunc(lines, func(x, y string) int { return key(x) - key(y) })
	return strings.Join(lines, ", ")
}

func wantStartError(name string, phase Phase) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var start *StartError
		if !errors.As(err, &start) || start.Component != name || start.Phase != phase || !errors.Is(err, errBoom) {
			t.Errorf("got %v, want a StartError of %s in phase %q", err, name, phase)
		}
	}
}

func wantExitError(name string) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Component != name || !errors.Is(err, errBoom) {
			t.Errorf("got %v, want an ExitError of %s", err, name)
		}
	}
}
