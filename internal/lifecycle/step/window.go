package step

import (
	"context"
	"fmt"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/schedule"
)

// longestPause bounds how late an opening is noticed after a clock was set forward.
const longestWindowPause = 10 * time.Minute

type windowExecutor struct{}

// New returns the executor of window steps.
func NewWindow() Executor { return windowExecutor{} }

// Execute is done while the window is open.
func (windowExecutor) Execute(_ context.Context, in Input) (Result, error) {
	window, err := schedule.Parse(*in.Step.Window)
	if err != nil {
		return Result{}, Terminal(err, "correct the policy, then retry")
	}
	open, until := window.At(in.Now)
	message := "does not open within the next five years"
	switch when := until.In(window.Location()).Format("2006-01-02 15:04:05 MST"); {
	case open:
		return Result{Done: true, Message: "open until " + when}, nil
	case !until.IsZero():
		message = "opens at " + when
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: fmt.Sprintf("would wait: the window %s", message)}, nil
	}
	after := longestWindowPause
	if !until.IsZero() {
		after = min(after, until.Sub(in.Now))
	}
	return Result{Message: message, After: after}, nil
}
