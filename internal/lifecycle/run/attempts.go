package run

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

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
// endpoint that said when to ask again means it, and what is out of reach is tried less
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
