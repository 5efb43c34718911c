package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
	"github.com/slipway-dev/slipway/internal/host"
)

// headStart is how long a Follower waits before it begins: whoever assigns a host makes the Host
// there a moment later.
const headStart = time.Second

// errHostChanged means that the host is not to go any more, or that an operation has begun.
var errHostChanged = errors.New("the Host here says otherwise by now, or an operation has begun")

// FollowerOptions are the options of a Follower. All are required.
type FollowerOptions struct {
	// Namespace, HostName and HostID name the host; Configured is the namespace that the
	// agent's configuration has for it.
	Namespace, HostName, HostID, Configured string
	// Session is the identity in Namespace.
	Session *enroll.Session
	// Progress tells the claim generation that the host has served, and whether an
	// operation is at work.
	Progress func() (generation int64, busy bool)
	Log      *slog.Logger
}

// Follower follows what the Host says about its namespace.
type Follower struct {
	options FollowerOptions

	mu sync.Mutex
	// wanted is the namespace that the host is to be in; empty for the one it is in.
	wanted string
	// changed is closed when wanted changes.
	changed chan struct{}
}

// NewFollower returns a Follower of a host that stays where it is.
func NewFollower(o FollowerOptions) *Follower {
	return &Follower{options: o, changed: make(chan struct{})}
}

// Served is called with each version of the Host. It does not block.
func (f *Follower) Served(h *infrav1.Host) {
	wanted := ""
	if h.Spec.AssignedNamespace != f.options.Namespace && h.Spec.Claim == nil {
		wanted = h.Spec.AssignedNamespace
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if wanted == f.wanted {
		return
	}
	f.wanted = wanted
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Follower) wish() (string, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted, f.changed
}

// Run blocks until the host is in another namespace, where the agent then has to enroll, and
// returns it; or until the context ends, and returns nothing.
func (f *Follower) Run(ctx context.Context) string {
	for {
		namespace, changed := f.wish()
		var again <-chan time.Time
		if namespace != "" {
			err := f.follow(ctx, namespace, changed)
			if err == nil {
				return namespace
			}
			if ctx.Err() == nil && !errors.Is(err, errHostChanged) {
				f.options.Log.Warn("cannot go to the namespace that the host is assigned to, trying again", "assignedNamespace", namespace, "err", err)
			}
			again = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-changed:
		case <-again:
		}
	}
}

// follow makes one try, which ends when the Host says something else.
func (f *Follower) follow(ctx context.Context, namespace string, changed <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attempt, fmt.Errorf("namespace %s has no Host %s for this machine yet, or slipway-manager does not look after it", namespace, f.options.HostName))
	defer cancel()
	ctx, called := context.WithCancelCause(ctx)
	defer called(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-changed:
			called(errHostChanged)
		}
	}()
	if !backoff.Sleep(ctx, headStart) {
		return context.Cause(ctx)
	}
	f.options.Log.Info("the host is assigned to another namespace, asking for certificates there", "assignedNamespace", namespace)
	there, err := f.options.Session.Assign(ctx, namespace)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := f.recognize(ctx, there, namespace); err != nil {
		return err
	}
	if wanted, _ := f.wish(); wanted != namespace {
		return errHostChanged
	}
	if err := there.Commit(f.options.Configured); err != nil {
		return fmt.Errorf("write down that the host is in namespace %s: %w", namespace, err)
	}
	f.options.Log.Info("went over to the namespace that the host is assigned to", "assignedNamespace", namespace)
	return nil
}

// recognize waits until the Host there is shown to this agent, and that nothing is at work
// here. The right to see it comes a moment after the certificate.
func (f *Follower) recognize(ctx context.Context, there *enroll.Assignment, namespace string) error {
	client, err := kube.New(there.Config())
	if err != nil {
		return err
	}
	for {
		h, err := client.GetHost(ctx, namespace, f.options.HostName)
		if err == nil {
			if may, err := f.mayGo(h); err != nil || may {
				return err
			}
		} else {
			f.options.Log.Debug("the namespace that the host is assigned to does not show it yet", "assignedNamespace", namespace, "err", err)
		}
		if !backoff.Sleep(ctx, retryEvery/5) {
			return context.Cause(ctx)
		}
	}
}

// mayGo judges the Host there.
func (f *Follower) mayGo(there *infrav1.Host) (bool, error) {
	generation, busy := f.options.Progress()
	if err := host.Recognize(there, f.options.HostID, generation); err != nil {
		return false, fmt.Errorf("%w; the Host %s/%s takes spec.hostID and spec.claimGeneration of the one here", err, there.Namespace, there.Name)
	}
	return !busy && !host.Leaving(there), nil
}
