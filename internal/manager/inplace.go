package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/internal/hookserver"
	"github.com/slipway-dev/slipway/internal/inplace"
	"github.com/slipway-dev/slipway/internal/version"
)

// setupInPlaceUpdates serves the hooks of updates in place, with the gate InPlaceUpdates.
func setupInPlaceUpdates(_ context.Context, mgr ctrl.Manager, o Options) error {
	if !o.FeatureGates.Enabled(InPlaceUpdates) {
		return nil
	}
	serving := o.Hooks
	serving.CertDir = o.WebhookCertDir
	server, err := hookserver.New(serving, mgr.GetLogger().WithName("in-place-updates"))
	if err != nil {
		return fmt.Errorf("feature gate %s: %w", InPlaceUpdates, err)
	}
	handler := &inplace.Handler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Version: version.Version}
	if err := handler.AddTo(server.Hooks); err != nil {
		return fmt.Errorf("register the handlers of updates in place: %w", err)
	}
	var already prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(server.Metrics); err != nil && !errors.As(err, &already) {
		return fmt.Errorf("register the metrics of updates in place: %w", err)
	}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("hooks", server.Check))
}
