package handover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	// retryEvery is how often an agent that cannot go on looks again, and how long after a
	// failed attempt a Follower begins the next one.
	retryEvery = 5 * time.Second
	// DefaultPatience is how long a management cluster may be away before an agent that
	// is prepared looks for its host in the other one.
	DefaultPatience = 2 * time.Minute
	// answeredPatience is how many times longer it may answer with errors alone, as a load
	// balancer in front of a dead API server does, and a living one whose etcd is away.
	answeredPatience = 5
	// deniedPatience is the part of it for which it must deny the agent its Host, and say
	// nothing else, until that counts as letting go. The rights go with the Host, but an API
	// server that starts knows nobody's for a moment, and rights that were deleted by
	// mistake come back.
	deniedPatience = 0.5
	// probeEvery is how often an agent that is ready makes sure that it still is: its
	// token may expire, and the network change, before the move begins.
	probeEvery = 2 * time.Minute
)

// Secrets reads the hand-over.
type Secrets interface {
	GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Options of a Keeper. All are required but Patience.
type Options struct {
	// StateDir of the agent.
	StateDir string
	// Namespace, HostName and HostID name the host.
	Namespace, HostName, HostID string
	// Session is the identity in the management cluster that serves the host.
	Session *enroll.Session
	// Secrets reads from that cluster.
	Secrets Secrets
	// Progress tells the claim generation that the host has served, and whether an
	// operation is at work.
	Progress func() (generation int64, busy bool)
	// Answered is called when there is a new report.
	Answered func()
	// Patience is how long the management cluster may be away. Default DefaultPatience.
	Patience time.Duration
	Log      *slog.Logger
}

// Keeper follows the hand-over of one host. It implements agent.HandOver.
type Keeper struct {
	options Options
	wake    chan struct{}
	// save is state.save but in tests. Only Run changes state, and it saves without the lock: the
	// heartbeat needs the lock, and a disk may take long.
	save func(state) error

	mu    sync.Mutex
	state state
	// heard is true once the management cluster announced something, and announced is
	// the revision it asks for; signer is who signs there.
	heard     bool
	announced string
	signer    []byte
	report    string
	// probed is when the other management cluster was within reach last.
	probed time.Time
	// gone is true when the cluster says that it has no such Host for this agent, shown when it
	// shows the Host; neither is at the start. denied is since when it says only that the agent has no right to it. away is since when it does
	// not serve anybody, and silent since when there is not even an answer that says so.
	// served is closed when it shows the Host again.
	gone, shown bool
	// told is true once an operator can read in the log what the agent waits for, since it
	// was not let go.
	told                 bool
	denied, away, silent time.Time
	served               chan struct{}
}

// New returns a Keeper with what an earlier process knew.
func New(o Options) (*Keeper, error) {
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	known, err := load(o.StateDir)
	if err != nil {
		return nil, err
	}
	save := func(s state) error { return s.save(o.StateDir) }
	return &Keeper{options: o, wake: make(chan struct{}, 1), save: save, state: known, served: make(chan struct{})}, nil
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Announced implements agent.HandOver.
func (k *Keeper) Announced(annotations map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	revision := annotations[infrav1.HandOverAnnotation]
	signer := host.DecodeSigner(annotations[infrav1.HandOverSignerAnnotation])
	if k.heard && revision == k.announced && bytes.Equal(signer, k.signer) {
		return
	}
	k.heard, k.announced, k.signer = true, revision, signer
	k.signal()
}

// Served implements agent.HandOver.
func (k *Keeper) Served() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.denied, k.away, k.silent, k.told = time.Time{}, time.Time{}, time.Time{}, false
	if k.gone || k.state.LetGo {
		k.signal()
	}
	k.gone, k.shown = false, true
	close(k.served)
	k.served = make(chan struct{})
}

// Unserved implements agent.HandOver.
func (k *Keeper) Unserved(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.denied, k.away, k.silent = time.Time{}, time.Time{}, time.Time{}
		if !k.gone {
			k.gone, k.shown = true, false
			k.signal()
		}
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		// Not found is what is watched, not the Host: its kind is not served, or a proxy
		// knows no such page.
		k.away, k.silent = time.Time{}, time.Time{}
		if k.denied.IsZero() {
			k.denied = time.Now()
		}
	case !alive(err):
		k.denied = time.Time{}
		answer := apierrors.APIStatus(nil)
		now := time.Now()
		switch {
		case errors.As(err, &answer):
			k.silent = time.Time{}
		case k.silent.IsZero():
			k.silent = now
		}
		if k.away.IsZero() {
			k.away = now
			k.signal()
		}
	}
}

// letGo says whether the management cluster of this host said that it has no such Host.
func (k *Keeper) letGo() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.released()
}

// released is letGo with the lock held.
func (k *Keeper) released() bool {
	return k.gone || lasts(k.denied, time.Duration(deniedPatience*float64(k.options.Patience))) || k.state.LetGo && !k.shown && k.dead()
}

// dead says whether the management cluster seems to be gone. The lock is held.
func (k *Keeper) dead() bool {
	return lasts(k.silent, k.options.Patience) || lasts(k.away, answeredPatience*k.options.Patience)
}

func lasts(since time.Time, patience time.Duration) bool {
	return !since.IsZero() && time.Since(since) >= patience
}

// alive says whether an error is the answer of an API server that serves others.
func alive(err error) bool {
	answer := apierrors.APIStatus(nil)
	return errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError && !apierrors.IsUnauthorized(err)
}

// Report implements agent.HandOver.
func (k *Keeper) Report() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.report
}

// Run blocks until the host was taken over by another management cluster, and then
// returns true, or until the context ends. After true, the agent has to enroll anew,
// which brings it there.
func (k *Keeper) Run(ctx context.Context) bool {
	for ctx.Err() == nil {
		k.prepare(ctx)
		if k.leave(ctx) {
			return true
		}
		k.pause(ctx)
	}
	return false
}

// pause waits for news, and looks again after a while.
func (k *Keeper) pause(ctx context.Context) {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.wake:
	case <-timer.C:
	}
}

// abandoned returns the hand-over that is due, if the management cluster does not serve
// the host any more, and a channel that is closed when it does again.
func (k *Keeper) abandoned() (*host.HandOver, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.released() || k.dead() {
		if prepared := k.state.Prepared; prepared != nil && !prepared.Expired(time.Now()) {
			return prepared, k.served
		}
	}
	return nil, nil
}

// remember changes what outlives the process. What cannot be written is not known.
func (k *Keeper) remember(change func(*state)) error {
	k.mu.Lock()
	changed := k.state
	k.mu.Unlock()
	change(&changed)
	if err := k.save(changed); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = changed
	return nil
}

// answer sets the report and has it sent when it is new.
func (k *Keeper) answer(report string) {
	k.mu.Lock()
	changed := report != k.report
	k.report = report
	k.mu.Unlock()
	if changed {
		k.options.Answered()
	}
}
