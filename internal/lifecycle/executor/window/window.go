// Package window executes window steps: it waits until a maintenance window is open.
// That it still is when the hook passes, plan.Blocks sees to.
//
// It may import step and schedule.
package window

import (
	"context"
	"fmt"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// longestPause bounds how late an opening is noticed after a clock was set forward.
const longestPause = 10 * time.Minute

type executor struct{}

// New returns the executor of window steps.
func New() step.Executor { return executor{} }

// Execute is done while the window is open.
func (executor) Execute(_ context.Context, in step.Input) (step.Result, error) {
	window, err := schedule.Parse(*in.Step.Window)
	if err != nil {
		return step.Result{}, step.Terminal(err, "correct the policy, then retry")
	}
	open, until := window.At(in.Now)
	message := "does not open within the next five years"
	switch when := until.In(window.Location()).Format("2006-01-02 15:04:05 MST"); {
	case open:
		return step.Result{Done: true, Message: "open until " + when}, nil
	case !until.IsZero():
		message = "opens at " + when
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return step.Result{Done: true, Message: fmt.Sprintf("would wait: the window %s", message)}, nil
	}
	after := longestPause
	if !until.IsZero() {
		after = min(after, until.Sub(in.Now))
	}
	return step.Result{Message: message, After: after}, nil
}
