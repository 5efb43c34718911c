package manager

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/inplace"
	"github.com/slipway-dev/slipway/internal/version"
)

// setupInPlaceUpdates serves the hooks of updates in place, with the gate InPlaceUpdates.
func setupInPlaceUpdates(_ context.Context, mgr ctrl.Manager, o Options) error {
	if !o.FeatureGates.Enabled(InPlaceUpdates) {
		return nil
	}
	server, err := o.NewHookServer(o.WebhookCertDir, o.Tracer, mgr.GetLogger().WithName("in-place-updates"))
	if err != nil {
		return fmt.Errorf("feature gate %s: %w", InPlaceUpdates, err)
	}
	handler := &inplace.Handler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Version: version.Version}
	if err := handler.AddTo(server); err != nil {
		return fmt.Errorf("register the handlers of updates in place: %w", err)
	}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("hooks", server.Check))
}
