package run

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// stop ends what a step left running that is not executed again, its attempt first. It
// comes before the outcome is stored: who is killed between the two does it once more. It
// returns what is to be added to the message, when it could not be done: a workload
// cluster that is out of reach must not keep the run from going on.
func (r *Reconciler) stop(ctx context.Context, s *scope, current *lifecyclev1.Step) string {
	r.flights.abandon(client.ObjectKeyFromObject(s.run))
	stopper, ok := r.Executors[step.KindOf(current)].(step.Stopper)
	if progress := s.run.Progress(current.Name); !ok || progress == nil || progress.Job == nil {
		return ""
	}
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := stopper.Stop(limited, r.input(s, current)); err != nil {
		return fmt.Sprintf("; its Job could not be stopped: %v", err)
	}
	return ""
}
