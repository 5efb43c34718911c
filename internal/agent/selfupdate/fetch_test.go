package selfupdate

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

func TestFetch(t *testing.T) {
	w := newWorld(t, good)
	changed := w.Changed()
	w.order()
	if err := w.run(t); !errors.Is(err, ErrReady) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(w.next())
	must(t, err)
	info, err := os.Stat(w.next())
	must(t, err)
	if string(data) != good || info.Mode() != 0o755 || w.program(t) != "the old agent" {
		t.Errorf("%v %q, the agent is %q", info.Mode(), data, w.program(t))
	}
	w.tells(t, infrav1.HostAgentUpdateFetching)
	select {
	case <-changed:
	default:
		t.Error("nobody hears of it")
	}
	w.clean(t, "/bin/slipway-agent.next", "/state/agent-update.json")
}

// Whatever stands in the way of a fetch is told with a remedy, and goes away once it is mended.
func TestFetchIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(w *world) (mend func())
		want   string
	}{
		"no key":    {func(w *world) func() { w.noKeys = os.ErrPermission; return func() { w.noKeys = nil } }, "permission denied"},
		"no source": {func(w *world) func() { w.sources = errors.New("serves no bundles"); return func() { w.sources = nil } }, "serves no bundles"},
		"another key": {func(w *world) func() {
			keys := w.source.Keys
			other, _ := layout(t, good)
			w.source.Keys = other.Keys
			return func() { w.source.Keys = keys }
		}, "Untrusted: "},
		"another bundle": {func(w *world) func() {
			was := *w.source
			*w.source, _ = layout(t, silent)
			return func() { *w.source = was }
		}, "OtherBundle: "},
		"no such version": {func(w *world) func() {
			was := w.source.Dir
			w.source.Dir = t.TempDir()
			return func() { w.source.Dir = was }
		}, "index.json"},
		"the program cannot be written": {func(w *world) func() {
			must(t, os.MkdirAll(w.part()+"/x", 0o755))
			return func() { must(t, os.RemoveAll(w.part())) }
		}, "slipway-agent.next.part"},
		"the disk fills": {func(w *world) func() {
			at := staging(w.options.StateDir).Dir
			restore := durable.Intercept(at, func(effect durable.Effect, path string) error {
				if effect == durable.Sync {
					return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
				}
				return nil
			})
			return func() {
				restore()
				if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("what was fetched still takes room: %v", err)
				}
			}
		}, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, good)
			mend := tc.breaks(w)
			w.order()
			if err := w.run(t); errors.Is(err, ErrReady) {
				t.Fatal("it is ready")
			}
			w.tells(t, infrav1.HostAgentUpdateFetching, "cannot fetch slipway-agent v0.2.0, trying again: ", tc.want)
			if _, err := os.Stat(w.next()); err == nil {
				t.Error("there is a program to try")
			}
			mend()
			if err := w.run(t); errors.Is(err, ErrReady) {
				t.Error("it did not wait")
			}
			w.now = func() time.Time { return time.Now().Add(time.Minute) }
			if err := w.run(t); !errors.Is(err, ErrReady) {
				t.Errorf("%v: %+v", err, w.Status())
			}
		})
	}
}

// A program that is not what was ordered is not tried.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct{ program, want string }{
		"another version": {other, `it says that its version is "v0.1.9"`},
		"fails":           {broken, "it cannot tell its version: exit status 1"},
		"no program":      {noProgram, "it cannot tell its version"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.program)
			w.order()
			if err := w.run(t); errors.Is(err, ErrReady) {
				t.Error("it is ready")
			}
			w.tells(t, infrav1.HostAgentUpdateFailed, tc.want, "is not tried again: load a mended release")
			w.clean(t, "/state/agent-update.json")
			w.restart(t, w.dir(), oldVersion)
			w.tells(t, infrav1.HostAgentUpdateFailed, tc.want)
		})
	}
}

// One that does not answer, or not only that, may be so since the host was busy.
func TestCheckIsSlow(t *testing.T) {
	w := newWorld(t, chatters)
	w.limits.check = 100 * time.Millisecond
	w.order()
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		w.now = func() time.Time { return time.Now().Add(time.Duration(attempt) * time.Hour) }
		for w.Status() == nil || !strings.Contains(w.Status().Message, "tried "+string(rune('0'+attempt))) {
			if err := w.run(t); errors.Is(err, ErrReady) {
				t.Fatal("it is ready")
			}
		}
	}
	w.tells(t, infrav1.HostAgentUpdateFailed, "tried 3 of 3 times: the program of slipway-agent v0.2.0 does not tell its version within 100ms")
}

// An order that is taken back, or another one, leaves nothing of the last one.
func TestOrders(t *testing.T) {
	w := newWorld(t, good)
	w.order()
	if err := w.run(t); !errors.Is(err, ErrReady) {
		t.Fatal(err)
	}
	w.Served(&infrav1.Host{})
	if err := w.run(t); errors.Is(err, ErrReady) {
		t.Error("it tries what nobody asks for any more")
	}
	w.clean(t)
	if w.Status() != nil {
		t.Errorf("it tells %+v", w.Status())
	}

	must(t, w.save(Record{Version: newVersion, ReleaseDigest: digestA, Attempts: 3, State: infrav1.HostAgentUpdateFailed}))
	w.restart(t, w.dir(), oldVersion)
	w.order()
	if err := w.run(t); !errors.Is(err, ErrReady) || w.record.Attempts != 0 {
		t.Errorf("%v, %+v: the count of another bundle stands", err, w.record)
	}
}

// endless is a source whose content ends when nobody wants it any more.
type endless struct {
	source
	begun func()
	ended bool
}

func (e *endless) Blob(ctx context.Context, _ hostbundle.Staging, _ ocispec.Descriptor, _ func(have, size int64)) error {
	e.begun()
	<-ctx.Done()
	e.ended = errors.Is(context.Cause(ctx), context.Canceled)
	return ctx.Err()
}

// An order that is taken back while its bundle is fetched ends that.
func TestTakenBack(t *testing.T) {
	w := newWorld(t, good)
	slow := &endless{source: source{w.source}, begun: func() { w.Served(&infrav1.Host{}) }}
	w.options.Sources = func(context.Context) ([]software.Source, error) { return []software.Source{slow}, nil }
	w.order()
	if _ = w.run(t); !slow.ended {
		t.Error("it goes on with the fetch")
	}
	w.clean(t)
}

// While an operation is at work nothing is fetched, and nothing tried.
func TestBusy(t *testing.T) {
	w := newWorld(t, good)
	w.busy = "b (Bootstrapped)"
	w.order()
	if err := w.run(t); errors.Is(err, ErrReady) {
		t.Error("it is ready")
	}
	w.tells(t, infrav1.HostAgentUpdateFetching, "b (Bootstrapped)")
	w.clean(t)
}
