package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

func newSession(t *testing.T) *Session {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	tree := progress.New(null)
	t.Cleanup(func() {
		tree.Close()
		_ = null.Close()
	})
	return &Session{Instance: &instance.Instance{Dir: t.TempDir()}, Progress: tree}
}

func TestFullDiskIsNamedOnce(t *testing.T) {
	s := newSession(t)
	err := s.explain(fmt.Errorf("host-1: %w", &os.PathError{Op: "write", Path: "/x", Err: unix.ENOSPC}))
	var full *DiskFullError
	if !errors.As(err, &full) || full.Dir != s.Instance.Dir || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), "host-1") {
		t.Errorf("got %v", err)
	}
	if again := s.explain(fmt.Errorf("plane: %w", err)); strings.Count(again.Error(), "make room") != 1 {
		t.Errorf("said twice: %v", again)
	}
	if other := errors.New("other"); !errors.Is(s.explain(other), other) || s.explain(other).Error() != "other" {
		t.Errorf("another error was changed: %v", s.explain(other))
	}
}

func TestMachineErrorSaysEachRemedy(t *testing.T) {
	err := &MachineError{[]localhost.Finding{{Message: "too few inotify instances", Remedy: "sysctl -w x=1"}, {Message: "no memory", Remedy: "use fewer hosts"}}}
	if got, want := err.Error(), "too few inotify instances: sysctl -w x=1\nno memory: use fewer hosts"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunPhaseTellsFailureFromInterruption(t *testing.T) {
	s := newSession(t)
	broken := errors.New("broken")
	run := func(ctx context.Context, err error) error {
		p := phase{name: "p", run: func(*Session, context.Context, *progress.Step) error { return err }}
		return runPhase(ctx, s, p, s.Progress.Step("p"))
	}
	if err := run(t.Context(), broken); !errors.Is(err, broken) || err.Error() != "p: broken" {
		t.Errorf("failure: %v", err)
	}
	if err := run(t.Context(), nil); err != nil {
		t.Errorf("success: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, broken); !errors.Is(err, context.Canceled) {
		t.Errorf("interruption: %v", err)
	}
}

// A plane that crashes after it was ready, or is too busy to answer, is waited for, unless nobody starts it again.
func TestPhaseGoesOnAfterACrash(t *testing.T) {
	newClient(t)
	refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: &net.OpError{Op: "dial", Err: unix.ECONNREFUSED}}
	for name, failure := range map[string]error{
		"crashed": refused, "slow": fmt.Errorf("read Host h: %w", apierrors.NewTimeoutError("not in the time allotted", 0)), "no handshake": &url.Error{Op: "Get", Err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) { phaseGoesOn(t, failure) })
	}
}

func phaseGoesOn(t *testing.T, failure error) {
	tries := 0
	run := func(s *Session, requests bool) error {
		tries = 0
		return runPhase(t.Context(), s, phase{name: "p", requests: requests, run: func(*Session, context.Context, *progress.Step) error {
			if tries++; tries < 3 {
				return failure
			}
			return nil
		}}, s.Progress.Step("p"))
	}
	s := newSession(t)
	if err := run(s, true); err == nil || tries != 1 || !strings.Contains(err.Error(), "the plane has ended") {
		t.Errorf("nobody starts it again: %d tries, %v", tries, err)
	}
	if err := os.WriteFile(s.Instance.Kubeconfig(), env.Kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, s, statedir.Status{PID: os.Getpid(), Ready: true})
	if err := run(s, true); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if err := run(s, false); !errors.Is(err, failure) || tries != 1 {
		t.Errorf("the plane is none of its business: %d tries, %v", tries, err)
	}
}

// Not what a client makes of the end of its context, but what was waited for.
func TestTimeoutSaysWhatIsNotReady(t *testing.T) {
	s := newSession(t)
	s.Options.Timeout = time.Millisecond
	before := stages
	t.Cleanup(func() { stages = before })
	stages = [][]phase{{
		{name: "cluster", run: func(_ *Session, _ context.Context, step *progress.Step) error { step.Donef("c"); return nil }},
		{name: "nodes", run: func(_ *Session, ctx context.Context, step *progress.Step) error {
			step.Waitf("0 of 1: no host")
			<-ctx.Done()
			return ctx.Err()
		}},
	}}
	err := s.Run(t.Context())
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || err.Error() != "not all is ready after 1ms: nodes: 0 of 1: no host" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Options.Timeout = time.Hour
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &timeout) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestReasonIsShort(t *testing.T) {
	for _, tc := range []struct{ phase, reason, want string }{
		{"starting", "", "starting"},
		{"waiting to be ready", "waiting for etcd", "waiting for etcd"},
		{"waiting to be ready", "waiting for a, b, c", "waiting for a and 2 more"},
	} {
		if got := reason(statedir.ComponentStatus{Phase: component.Phase(tc.phase), Reason: tc.reason}); got != tc.want {
			t.Errorf("reason(%q, %q) = %q, want %q", tc.phase, tc.reason, got, tc.want)
		}
	}
}

func TestLastWords(t *testing.T) {
	s := newSession(t)
	if got, _ := s.lastWords(statedir.Status{Error: "no quorum"}, nil); got != "no quorum" {
		t.Errorf("got %q", got)
	}
	if got, _ := s.lastWords(statedir.Status{}, strings.NewReader("one\nError: port 1 is busy\n")); !strings.Contains(got, "ended at once: port 1 is busy") || !strings.Contains(got, s.Instance.PlaneLog()) {
		t.Errorf("got %q", got)
	}
}

func TestCountNodes(t *testing.T) {
	ready, want := countNodes(status.Cluster{
		ControlPlane: status.Replicas{Desired: 3},
		Pools:        []status.Pool{{Replicas: status.Replicas{Desired: 2}}, {}},
		Nodes:        []status.Node{{Ready: true}, {}, {Ready: true}},
	})
	if ready != 2 || want != 5 {
		t.Errorf("%d of %d, want 2 of 5", ready, want)
	}
}

func TestNodesOfAnEarlierBootAreNotReady(t *testing.T) {
	nodes := []status.Node{
		{Name: "host-1", Ready: true, BootID: "now"},
		{Name: "host-2", Ready: true, BootID: "before"},
		{Name: "elsewhere", Ready: true, BootID: "x"},
	}
	distrustEarlierBoots(nodes, map[string]string{"host-1": "now", "host-2": "now"})
	if !nodes[0].Ready || nodes[1].Ready || !nodes[2].Ready {
		t.Errorf("want only host-2 distrusted: %+v", nodes)
	}
}

func TestBecause(t *testing.T) {
	nodes := []status.Node{{Name: "host-1", Ready: true}, {Name: "host-2"}}
	for want, c := range map[string]status.Cluster{
		"":          {},
		": no host": {Waiting: []string{"no host", "b"}, Nodes: nodes},
		": waiting for the Node host-2 to be ready": {Nodes: nodes},
	} {
		if got := because(c); got != want {
			t.Errorf("because(%+v) = %q, want %q", c, got, want)
		}
	}
}

// TestTokenIsOfOneCommand: the phases of a command share a token, which the next one does
// not find.
func TestTokenIsOfOneCommand(t *testing.T) {
	s := newSession(t)
	first, err := s.token()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.token(); err != nil || second != first {
		t.Errorf("second token %q, %v; want the first, %q", second, err, first)
	}
	next := &Session{Instance: s.Instance}
	if other, err := next.token(); err != nil || other == first {
		t.Errorf("the next command has the same token %q, %v", other, err)
	}
}
