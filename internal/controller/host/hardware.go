package host

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/host"
)

// labelHardware makes labels of what the agent reported of the hardware. The agent has no
// right to: it could give its host any label that machines are selected by.
func (r *Reconciler) labelHardware(ctx context.Context, s *scope) (bool, error) {
	before := s.host.DeepCopy()
	if !host.LabelHardware(s.host) {
		return true, nil
	}
	// A UID that is another one is a conflict: the report was of another machine then.
	before.UID = ""
	if err := r.Client.Patch(ctx, s.host, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("label the host by its hardware: %w", err)
	}
	return false, nil
}
