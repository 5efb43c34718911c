package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A prober asks over and over whether something answers, and keeps the times at
// which it did.
type prober struct {
	mu       sync.Mutex
	answers  []span
	failures []failure
	stop     chan struct{}
	done     chan struct{}
}

// failure is when an attempt began that failed, and how.
type failure struct {
	begin time.Time
	err   error
}

// span is when an attempt that succeeded began and ended.
type span struct{ begin, end time.Time }

// probe starts a prober inside the network namespace of p, where the hosts are
// neighbours and neither the plane's process nor its forwarders are needed.
func (p *plane) probe(t *testing.T, ask func() error) *prober {
	t.Helper()
	ns, err := os.Open(filepath.Join("/run/netns", p.flags[1]))
	if err != nil {
		t.Fatal(err)
	}
	r := &prober{stop: make(chan struct{}), done: make(chan struct{})}
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
	t.Cleanup(r.end)
	return r
}

func (r *prober) note(begin time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failures = append(r.failures, failure{begin, err})
		return
	}
	r.answers = append(r.answers, span{begin, time.Now()})
}

// end stops the prober. It may be called again.
func (r *prober) end() {
	r.mu.Lock()
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.mu.Unlock()
	<-r.done
}

// answerAfter waits for an attempt that began after the given time and succeeded,
// and returns when it ended.
func (r *prober) answerAfter(t *testing.T, begin time.Time, limit time.Duration) time.Time {
	t.Helper()
	for {
		r.mu.Lock()
		var last error
		if n := len(r.failures); n > 0 {
			last = r.failures[n-1].err
		}
		for _, a := range r.answers {
			if a.begin.After(begin) {
				r.mu.Unlock()
				return a.end
			}
		}
		r.mu.Unlock()
		if time.Since(begin) > limit {
			t.Fatalf("no answer for %s: %v", limit, last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// longestGap is the longest time between two answers since the given time, with the
// attempts that began since then and failed.
func (r *prober) longestGap(since time.Time) (gap time.Duration, failures []failure) {
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
		if f.begin.After(since) {
			failures = append(failures, f)
		}
	}
	return max(gap, time.Since(previous)), failures
}

// attemptTimeout bounds one attempt, so that an address which is nowhere does not
// hide that it is back.
const attemptTimeout = time.Second

// apiServer asks an API server whether it is ready. Every attempt is a connection
// of its own, and runs on the calling thread.
func apiServer(host string) func() error {
	return func() error {
		raw, err := net.DialTimeout("tcp", net.JoinHostPort(host, "6443"), attemptTimeout)
		if err != nil {
			return err
		}
		// Only liveness is of interest here, not who answers.
		return get(tls.Client(raw, &tls.Config{InsecureSkipVerify: true}), "/readyz")
	}
}

func get(conn net.Conn, path string) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(attemptTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: e2e\r\nConnection: close\r\n\r\n", path); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}
