package engine

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/hookserver"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
)

// newHookServer serves the hooks of the engine.
func newHookServer(ctx context.Context, mgr ctrl.Manager, o Options) (*hookserver.Server, error) {
	if err := hooks.Warm(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	server, err := hookserver.New(o.hooks(), mgr.GetLogger().WithName("extension"))
	if err != nil {
		return nil, err
	}
	handler := &hooks.Handler{
		Namespace: o.Namespace, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
	}
	return server, handler.AddTo(server.Hooks)
}

func (o *Options) hooks() hookserver.Options {
	return hookserver.Options{
		Address: o.ExtensionAddress, CertDir: o.CertDir, ClientCAFile: o.ExtensionClientCAFile, ClientNames: o.ExtensionClientNames,
		Insecure: o.InsecureHooks, DrainDelay: o.DrainDelay, Tracer: o.Tracer,
	}
}
