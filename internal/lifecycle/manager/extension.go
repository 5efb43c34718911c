package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/sdk/extension"
)

// extensionServer serves the hooks in every replica. The manager starts it when its
// caches are filled: until then callers are refused the connection, which fails
// closed.
type extensionServer struct {
	server  *extension.Server
	address string
	serving atomic.Bool
}

func newExtensionServer(ctx context.Context, mgr ctrl.Manager, o Options) (*extensionServer, error) {
	if err := hooks.Warm(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	server, err := extension.New(extension.Options{
		CertFile:     filepath.Join(o.CertDir, "tls.crt"),
		KeyFile:      filepath.Join(o.CertDir, "tls.key"),
		ClientCAFile: o.ExtensionClientCAFile,
		DrainDelay:   o.DrainDelay,
		Logger:       slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("extension"))),
	})
	if err != nil {
		return nil, err
	}
	handler := &hooks.Handler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := handler.AddTo(server); err != nil {
		return nil, err
	}
	return &extensionServer{server: server, address: o.ExtensionAddress}, nil
}

// Start implements manager.Runnable.
func (s *extensionServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for hooks: %w", err)
	}
	s.serving.Store(true)
	defer s.serving.Store(false)
	return s.server.Serve(ctx, listener)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*extensionServer) NeedLeaderElection() bool { return false }

// check is a readiness check.
func (s *extensionServer) check(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the hooks are not served yet")
	}
	return nil
}
