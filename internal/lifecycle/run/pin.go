package run

import (
	"context"
	"fmt"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// pin records the content that steps refer to, before the first one begins: what people
// approve, and what the policy's author meant, must not be changed by who may write a
// ConfigMap. What is missing is pinned when it comes.
func (r *Reconciler) pin(ctx context.Context, s *scope) error {
	changed := false
	for i := range s.run.Spec.Steps {
		current := &s.run.Spec.Steps[i]
		pinner, ok := r.KindOf(current).(step.Pinner)
		if progress := s.run.Progress(current.Name); !ok || s.run.Pin(current.Name) != "" || progress != nil && progress.Outcome != "" {
			continue
		}
		digest, err := pinner.Pin(ctx, r.Env, s.run, current)
		if err != nil {
			return fmt.Errorf("pin what step %s refers to: %w", current.Name, err)
		}
		if digest != "" {
			s.run.Spec.Pins = append(s.run.Spec.Pins, lifecyclev1.Pin{Step: current.Name, Digest: digest})
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return r.store(ctx, s)
}
