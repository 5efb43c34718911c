package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

// ready is a world with a program that can be tried.
func ready(t *testing.T, content string) *world {
	t.Helper()
	w := newWorld(t, content)
	w.order()
	if err := w.run(t); !errors.Is(err, ErrReady) {
		t.Fatalf("%v: %+v", err, w.Status())
	}
	return w
}

// pid is the process of the agent that was tried last.
func pid(t *testing.T, dir string) int {
	t.Helper()
	var found int
	poll.Until(t, "the agent on trial runs", func() (err error) {
		data, err := os.ReadFile(filepath.Join(dir, "bin", "pid"))
		if err == nil {
			found, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err
	})
	return found
}

// impatient shortens what the agent on trial lets pass. One that hangs gets the time to tell
// its process, beside whatever else the machine does.
func impatient(w *world, program string) {
	if program == hangs {
		w.limits.start = 3 * time.Second
	}
	if program == silent {
		w.limits.report = 300 * time.Millisecond
	}
}

func gone(pid int) error {
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d is there: %w", pid, err)
	}
	return nil
}

func TestTrial(t *testing.T) {
	for name, program := range map[string]string{"good": good, "does not heed SIGTERM": stubborn} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, program)
			w.limits.stop = 500 * time.Millisecond
			if !w.Try(t.Context()) || w.program(t) != program {
				t.Errorf("the agent is %q, it tells %+v", w.program(t), w.Status())
			}
			must(t, gone(pid(t, w.dir())))
			w.clean(t, "/state/agent-update.json")
			// The new agent, which finds the record.
			w.restart(t, w.dir(), newVersion)
			if w.Status() != nil {
				t.Errorf("the new agent tells %+v", w.Status())
			}
			_ = w.run(t)
			w.clean(t)
		})
	}
}

func TestTrialFails(t *testing.T) {
	for name, tc := range map[string]struct{ program, want string }{
		"hangs":   {hangs, "the new agent did not start within 3s"},
		"silent":  {silent, "the new agent did not report to the management cluster within 300ms"},
		"crashes": {crashes, "the new agent ended before it reported: exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, tc.program)
			for attempt := 1; attempt <= maxAttempts; attempt++ {
				impatient(w, tc.program)
				restore := durable.Intercept(w.dir(), func(effect durable.Effect, _ string) error {
					if effect == durable.Delete {
						must(t, gone(pid(t, w.dir())))
					}
					return nil
				})
				if w.Try(t.Context()) || w.program(t) != "the old agent" {
					t.Fatalf("the agent is %q", w.program(t))
				}
				restore()
				w.clean(t, "/state/agent-update.json")
				state, says := infrav1.HostAgentUpdateFetching, "the next try is at "
				if attempt == maxAttempts {
					state, says = infrav1.HostAgentUpdateFailed, "this bundle is not tried again"
				}
				w.tells(t, state, fmt.Sprintf("tried %d of 3 times: ", attempt), tc.want, says)
				if attempt == 1 {
					w.restart(t, w.dir(), oldVersion)
					w.tells(t, state)
				}
				w.order()
				if err := w.run(t); errors.Is(err, ErrReady) {
					t.Fatal("it does not wait")
				}
				w.now = func() time.Time { return time.Now().Add(3 * time.Minute) }
				_, missing := os.Stat(w.next())
				if err := w.run(t); errors.Is(err, ErrReady) == (attempt == maxAttempts) || missing == nil {
					t.Fatalf("%v after %d trials", err, attempt)
				}
				if _, missing := os.Stat(w.next()); (missing == nil) == (attempt == maxAttempts) {
					t.Fatalf("after %d trials: %v", attempt, missing)
				}
				w.now = time.Now
			}
		})
	}
}

// A management cluster that nobody reaches says nothing of the new agent.
func TestTrialWhileNobodyAnswers(t *testing.T) {
	for program, counts := range map[string]bool{silent: false, hangs: true, crashes: true} {
		w := ready(t, program)
		impatient(w, program)
		w.away = errors.New("no route to host")
		w.Try(t.Context())
		if (w.record.Attempts == 1) != counts || strings.Contains(w.record.Message, "no route to host") == counts {
			t.Errorf("%q: %+v", program, w.record)
		}
	}
}

// An agent that is told to stop ends the trial, which counts for nothing.
func TestTrialIsStopped(t *testing.T) {
	for name, program := range map[string]string{"goes on": silent, "was told, too": tellsVersion} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, program)
			w.limits.grace = 20 * time.Second
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_ = poll.Wait(func() error { _, err := os.Stat(w.dir() + "/bin/pid"); return err })
				time.Sleep(50 * time.Millisecond)
				cancel()
			}()
			if w.Try(ctx) || w.record.Attempts != 0 {
				t.Errorf("%+v", w.record)
			}
			must(t, gone(pid(t, w.dir())))
			w.clean(t, "/state/agent-update.json")
		})
	}
}

// A trial that cannot be counted is not begun.
func TestTrialIsCountedFirst(t *testing.T) {
	w := ready(t, good)
	restore := durable.Intercept(w.options.StateDir, func(effect durable.Effect, _ string) error {
		if effect == durable.Create {
			return syscall.ENOSPC
		}
		return nil
	})
	if w.Try(t.Context()) {
		t.Error("it was tried")
	}
	if _, err := os.Stat(w.dir() + "/bin/pid"); err == nil {
		t.Error("the new agent was started")
	}
	restore()
	restore = durable.Intercept(w.options.Program, func(effect durable.Effect, _ string) error {
		if effect == durable.Move {
			if r, err := Read(w.options.StateDir); err != nil || r.Attempts != 1 || r.State != infrav1.HostAgentUpdateTrying {
				t.Errorf("at the end of the trial: %+v, %v", r, err)
			}
		}
		return nil
	})
	defer restore()
	if !w.Try(t.Context()) {
		t.Errorf("%+v", w.Status())
	}
}

// The old agent stays where its program cannot be replaced.
func TestProvedInVain(t *testing.T) {
	w := ready(t, good)
	defer durable.Intercept(w.options.Program, func(durable.Effect, string) error { return syscall.EROFS })()
	if w.Try(t.Context()) || w.program(t) != "the old agent" {
		t.Error("it was replaced")
	}
	w.tells(t, infrav1.HostAgentUpdateFetching, "cannot take the place of", "read-only file system")
}

// The power goes ahead of each change of the disk: the program is that of one of the versions,
// whole, and either goes on.
func TestPowerCuts(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, good)
		cut := powercut.At(t, w.dir(), n)
		w.order()
		if errors.Is(w.run(t), ErrReady) && w.Try(t.Context()) {
			w.options.Version = newVersion
			_ = w.run(t)
		}
		cut.On()
		if !cut.Cut() {
			if n < 12 {
				t.Errorf("only %q", cut.Changes)
			}
			w.clean(t)
			return
		}
		version := oldVersion
		switch w.program(t) {
		case good:
			version = newVersion
		case "the old agent":
		default:
			t.Fatalf("cut at %q: the agent is %q", cut.Changes, w.program(t))
		}
		// The next boot.
		w.restart(t, w.dir(), version)
		w.now = func() time.Time { return time.Now().Add(30 * time.Second) }
		w.order()
		if version == oldVersion {
			err := w.run(t)
			if !errors.Is(err, ErrReady) {
				// A trial was cut short: it counts.
				w.now = func() time.Time { return time.Now().Add(2 * time.Minute) }
				err = w.run(t)
			}
			if !errors.Is(err, ErrReady) || !w.Try(t.Context()) {
				t.Fatalf("cut at %q: %v, %+v", cut.Changes, err, w.Status())
			}
			w.restart(t, w.dir(), newVersion)
		}
		_ = w.run(t)
		if w.clean(t); w.program(t) != good || w.Status() != nil {
			t.Errorf("cut at %q: the agent is %q, it tells %+v", cut.Changes, w.program(t), w.Status())
		}
	}
}

// The power goes while an order is forgotten.
func TestForgetCutShort(t *testing.T) {
	for n := 1; ; n++ {
		w := ready(t, good)
		cut := powercut.At(t, w.dir(), n)
		w.Served(&infrav1.Host{})
		_ = w.run(t)
		cut.On()
		if !cut.Cut() {
			return
		}
		w.restart(t, w.dir(), oldVersion)
		w.Served(&infrav1.Host{})
		_ = w.run(t)
		w.clean(t)
	}
}

// An agent that takes the machine down with it is not tried for ever.
func TestTrialTakesTheMachineDown(t *testing.T) {
	w := newWorld(t, good)
	for attempt := 1; ; attempt++ {
		w.restart(t, w.dir(), oldVersion)
		w.now = func() time.Time { return time.Now().Add(time.Duration(attempt) * time.Hour) }
		w.order()
		if err := w.run(t); !errors.Is(err, ErrReady) {
			w.now = func() time.Time { return time.Now().Add(time.Duration(attempt)*time.Hour + 30*time.Minute) }
			if err = w.run(t); !errors.Is(err, ErrReady) {
				if attempt != maxAttempts+1 {
					t.Errorf("%d trials", attempt-1)
				}
				w.tells(t, infrav1.HostAgentUpdateFailed, "tried 3 of 3 times: the trial was cut short")
				w.clean(t, "/state/agent-update.json")
				return
			}
		}
		must(t, w.save(w.record.begun(w.now(), w.limits.retry)))
	}
}
