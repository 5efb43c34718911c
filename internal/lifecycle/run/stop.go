package run

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

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
