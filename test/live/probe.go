package live

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// Waits has a command of kubectl wait until shortly before the run ends.
func Waits() string { return "--timeout=" + poll.Limit().String() }

// A Prober asks over and over whether something answers, and keeps the times at
// which it did.
type Prober struct {
	mu       sync.Mutex
	answers  []probeSpan
	failures []ProbeFailure
	stop     chan struct{}
	done     chan struct{}
}

// ProbeFailure is when an attempt began that failed, and how.
type ProbeFailure struct {
	Begin time.Time
	Err   error
}

// probeSpan is when an attempt that succeeded began and ended.
type probeSpan struct{ begin, end time.Time }

// StartProber starts a Prober inside the network namespace of a plane, where the hosts are
// neighbours and neither the plane's process nor its forwarders are needed. It ends
// with the test.
func StartProber(t *testing.T, plane string, ask func() error) *Prober {
	t.Helper()
	ns, err := os.Open(filepath.Join("/run/netns", plane))
	if err != nil {
		t.Fatal(err)
	}
	r := &Prober{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer ns.Close()
		// The thread is not unlocked: it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			r.note(time.Now(), err)
			return
		}
		for {
			begin := time.Now()
			r.note(begin, ask())
			select {
			case <-r.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(r.End)
	return r
}

func (r *Prober) note(begin time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failures = append(r.failures, ProbeFailure{begin, err})
		return
	}
	r.answers = append(r.answers, probeSpan{begin, time.Now()})
}

// End stops the Prober. It may be called again.
func (r *Prober) End() {
	r.mu.Lock()
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.mu.Unlock()
	<-r.done
}

// AnswerAfter waits for an attempt that began after the given time and succeeded,
// and returns when it ended.
func (r *Prober) AnswerAfter(t *testing.T, begin time.Time) time.Time {
	t.Helper()
	var end time.Time
	poll.Until(t, "an answer", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.IndexFunc(r.answers, func(a probeSpan) bool { return a.begin.After(begin) })
		if i >= 0 {
			end = r.answers[i].end
			return nil
		}
		if n := len(r.failures); n > 0 {
			return r.failures[n-1].Err
		}
		return errors.New("no attempt has ended")
	})
	return end
}

// LongestGap is the longest time between two answers since the given time, with the
// attempts that began since then and failed.
func (r *Prober) LongestGap(since time.Time) (gap time.Duration, failures []ProbeFailure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	previous := since
	for _, a := range r.answers {
		if a.end.Before(since) {
			continue
		}
		gap = max(gap, a.end.Sub(previous))
		previous = a.end
	}
	for _, f := range r.failures {
		if f.Begin.After(since) {
			failures = append(failures, f)
		}
	}
	return max(gap, time.Since(previous)), failures
}
