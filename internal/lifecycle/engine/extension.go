package engine

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/sdk/extension"
)

// newHookServer serves the hooks of the engine.
func newHookServer(ctx context.Context, mgr ctrl.Manager, o Options) (*extension.Server, error) {
	if err := hooks.Warm(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	server, err := o.NewHookServer(o.CertDir, o.Tracer, mgr.GetLogger().WithName("extension"))
	if err != nil {
		return nil, err
	}
	handler := &hooks.Handler{
		Namespace: o.Namespace, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
	}
	return server, handler.AddTo(server)
}
