package run

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
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
}

// attempts keep the controller from looking at a waiting step each time it is woken: an
// endpoint that said when to ask again means it. They may be lost, as all memory.
type attempts struct{ byRun sync.Map }

func (a *attempts) remember(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, at time.Time, after time.Duration, report string) {
	a.byRun.Store(client.ObjectKeyFromObject(run), waitingAttempt{run.UID, run.Generation, s.Name, at, after, report})
}

func (a *attempts) forget(run types.NamespacedName) { a.byRun.Delete(run) }

// early says how long to leave a step alone, and what was seen of it. A run that has
// changed since, by a decision say, is looked at; so are gates, for which any change of
// the Cluster may make a difference.
func (a *attempts) early(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, now time.Time) (time.Duration, string) {
	known, _ := a.byRun.Load(client.ObjectKeyFromObject(run))
	last, ok := known.(waitingAttempt)
	if !ok || last.run != run.UID || last.generation != run.Generation || last.step != s.Name || step.KindOf(s) == step.KindExpression {
		return 0, ""
	}
	passed := now.Sub(last.at)
	if passed < 0 {
		return 0, ""
	}
	return last.after - passed, last.report
}
