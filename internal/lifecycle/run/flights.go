package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

const (
	// patience is how long a worker of the controller waits for an attempt. An export of
	// minutes, or a workload cluster that does not answer, goes on without the worker, so
	// that neither holds up the runs of others.
	patience = 2 * time.Second
	// maxFlights bounds the attempts that go on without a worker: each may have a
	// cluster's objects in memory. Beyond, workers wait.
	maxFlights = 32
)

// errUnderWay says that an attempt goes on without the worker.
var errUnderWay = errors.New("the attempt is under way")

// flight is one attempt. Its result counts as long as the step, its record and the
// decisions about it are those with which it began.
type flight struct {
	in   step.Input
	last bool

	cancel context.CancelFunc
	// alone: no worker waits for it.
	alone bool
	// done is closed when result and err are there.
	done   chan struct{}
	result step.Result
	err    error
}

func (f *flight) is(in step.Input, last bool) bool {
	name := in.Step.Name
	return f.last == last && f.in.Run.UID == in.Run.UID && f.in.Run.Spec.Mode == in.Run.Spec.Mode && f.in.Run.Pin(name) == in.Run.Pin(name) &&
		apiequality.Semantic.DeepEqual(f.in.Step, in.Step) && apiequality.Semantic.DeepEqual(f.in.Progress, in.Progress) &&
		apiequality.Semantic.DeepEqual(step.DecisionsFor(f.in.Run, name), step.DecisionsFor(in.Run, name))
}

// flights are the attempts under way, one for each run at most. A process that is killed
// loses them: the attempt is made again, as it would be had a worker been killed.
type flights struct {
	mu    sync.Mutex
	byRun map[types.NamespacedName]*flight
	alone int
	// ended wakes the controller; nil when nobody listens.
	ended chan event.GenericEvent
}

// attempt returns what do returns, or errUnderWay: then it is to be called again when the
// controller is woken. The context of do ends with ctx, which
// must outlive the worker, or when the attempt is abandoned.
func (f *flights) attempt(ctx context.Context, in step.Input, last bool, do func(context.Context) (step.Result, error)) (step.Result, error) {
	key := client.ObjectKeyFromObject(in.Run)
	f.mu.Lock()
	current := f.byRun[key]
	f.mu.Unlock()
	if current != nil && !current.is(in, last) {
		f.abandon(key)
		current = nil
	}
	var timeout <-chan time.Time
	if current == nil {
		current = &flight{in: in, last: last, done: make(chan struct{})}
		f.start(ctx, key, current, do)
		timer := time.NewTimer(patience)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		if timeout == nil && f.leave(current) {
			return step.Result{}, errUnderWay
		}
		select {
		case <-current.done:
			f.remove(key, current)
			return current.result, current.err
		case <-ctx.Done():
			f.abandon(key)
			return step.Result{}, ctx.Err()
		case <-timeout:
			timeout = nil
		}
	}
}

func (f *flights) start(ctx context.Context, key types.NamespacedName, current *flight, do func(context.Context) (step.Result, error)) {
	flying, cancel := context.WithCancel(ctx)
	current.cancel = cancel
	f.mu.Lock()
	if f.byRun == nil {
		f.byRun = map[types.NamespacedName]*flight{}
	}
	f.byRun[key] = current
	f.mu.Unlock()
	go func() {
		defer cancel()
		result, err := recovered(flying, do)
		if f.land(current, result, err) && f.ended != nil {
			run := &lifecyclev1.LifecycleRun{}
			run.Namespace, run.Name = key.Namespace, key.Name
			select {
			case f.ended <- event.GenericEvent{Object: run}:
			case <-ctx.Done():
			}
		}
	}()
}

// recovered is do, of which a panic is an error: the controller would recover from one in
// its worker, and what strangers write must not end the program.
func recovered(ctx context.Context, do func(context.Context) (step.Result, error)) (_ step.Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v [recovered]", cause)
		}
	}()
	return do(ctx)
}

// leave says whether the worker need not wait. One that is done is waited for.
func (f *flights) leave(current *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-current.done:
		return false
	default:
	}
	if current.alone {
		return true
	}
	if f.alone == maxFlights {
		return false
	}
	current.alone = true
	f.alone++
	return true
}

// land keeps the result, and says whether no worker waits for it.
func (f *flights) land(current *flight, result step.Result, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	current.result, current.err = result, err
	close(current.done)
	if current.alone {
		f.alone--
	}
	return current.alone
}

func (f *flights) remove(key types.NamespacedName, current *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byRun[key] == current {
		delete(f.byRun, key)
	}
}

// abandon cuts the attempt of a run off and returns when it has ended: nothing that it does
// comes after. Its result is lost.
func (f *flights) abandon(key types.NamespacedName) {
	f.mu.Lock()
	current := f.byRun[key]
	delete(f.byRun, key)
	f.mu.Unlock()
	if current != nil {
		current.cancel()
		<-current.done
	}
}

// waitingAttempt is one after which a step waits.
type waitingAttempt struct {
	run        types.UID
	generation int64
	step       string
	at         time.Time
	after      time.Duration
	report     string
	// misses counts the attempts in a row that did not reach what the step works on, and
	// connected is since when Cluster API had reached the workload cluster at the last.
	misses    int32
	connected time.Time
}

// attempts keep the controller from looking at a waiting step each time it is woken: an
// endpoint that set the next request means it, and what is out of reach is tried less
// and less often. They may be lost, as all memory.
type attempts struct{ byRun sync.Map }

func (a *attempts) remember(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, at time.Time, after time.Duration, report string) {
	a.byRun.Store(client.ObjectKeyFromObject(run), waitingAttempt{run: run.UID, generation: run.Generation, step: s.Name, at: at, after: after, report: report})
}

// missed remembers an attempt that did not reach what the step works on. It returns how
// long to leave it alone, and how many there were in a row.
func (a *attempts) missed(s *scope, current *lifecyclev1.Step, at time.Time, report string) (time.Duration, int32) {
	last, _ := a.last(s.run, current)
	miss := waitingAttempt{
		run: s.run.UID, generation: s.run.Generation, step: current.Name, at: at, report: report,
		misses: last.misses + 1, connected: connectedSince(s.cluster),
	}
	miss.after = pause(s.run, current, plan.Backoff(current, miss.misses), at)
	a.byRun.Store(client.ObjectKeyFromObject(s.run), miss)
	return miss.after, miss.misses
}

func (a *attempts) forget(run types.NamespacedName) { a.byRun.Delete(run) }

// last is what is remembered of a step of a run.
func (a *attempts) last(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) (waitingAttempt, bool) {
	known, _ := a.byRun.Load(client.ObjectKeyFromObject(run))
	last, ok := known.(waitingAttempt)
	if !ok || last.run != run.UID || last.step != s.Name {
		return waitingAttempt{}, false
	}
	return last, true
}

// early says how long to leave a step alone, and after which attempt. A run that has
// changed since, by a decision say, is looked at; so are gates, for which any change of
// the Cluster may make a difference, and what Cluster API reaches again.
func (a *attempts) early(s *scope, current *lifecyclev1.Step, now time.Time) (time.Duration, waitingAttempt) {
	last, ok := a.last(s.run, current)
	if !ok || last.generation != s.run.Generation || step.FactsOf(current).FollowsCluster {
		return 0, waitingAttempt{}
	}
	if again := connectedSince(s.cluster); last.misses > 0 && !again.IsZero() && !again.Equal(last.connected) {
		return 0, waitingAttempt{}
	}
	passed := now.Sub(last.at)
	if passed < 0 {
		return 0, waitingAttempt{}
	}
	return last.after - passed, last
}

// connectedSince is since when Cluster API reaches the workload cluster, by the connection
// of its cluster cache; zero while it does not.
func connectedSince(cluster *clusterv1.Cluster) time.Time {
	probe := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if probe == nil || probe.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return probe.LastTransitionTime.Time
}

// stop ends what a step left running that is not executed again, its attempt first. It
// comes before the outcome is stored: who is killed between the two does it once more.
func (r *Reconciler) stop(ctx context.Context, s *scope, current *lifecyclev1.Step) error {
	r.flights.abandon(client.ObjectKeyFromObject(s.run))
	stopper, ok := r.KindOf(current).(step.Stopper)
	if progress := s.run.Progress(current.Name); !ok || progress == nil || progress.Job == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := stopper.Stop(limited, r.input(s, current)); err != nil {
		return fmt.Errorf("its Job could not be stopped: %w", err)
	}
	return nil
}

// stopped is what is to be added to the message of a step: a workload cluster that is out
// of reach must not keep the run from going on.
func (r *Reconciler) stopped(ctx context.Context, s *scope, current *lifecyclev1.Step) string {
	if err := r.stop(ctx, s, current); err != nil {
		return "; " + err.Error()
	}
	return ""
}
