package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
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
	metrics *prometheus.Registry
	serving atomic.Bool
}

func newExtensionServer(ctx context.Context, mgr ctrl.Manager, o Options) (*extensionServer, error) {
	if err := hooks.Warm(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	options := extension.Options{
		CertFile:   filepath.Join(o.CertDir, "tls.crt"),
		KeyFile:    filepath.Join(o.CertDir, "tls.key"),
		DrainDelay: o.DrainDelay,
		Metrics:    prometheus.NewRegistry(),
		Logger:     mgr.GetLogger().WithName("extension"),
	}
	if !o.InsecureHooks {
		options.ClientCAFile = o.ExtensionClientCAFile
		options.Middleware = only(o.ExtensionClientNames)
	}
	server, err := extension.New(options)
	if err != nil {
		return nil, err
	}
	handler := &hooks.Handler{
		Namespace: o.Namespace, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
	}
	if err := handler.AddTo(server); err != nil {
		return nil, err
	}
	return &extensionServer{server: server, address: o.ExtensionAddress, metrics: options.Metrics}, nil
}

// only refuses callers whose certificate has another common name. Whether there must be
// one the server itself sees to: kubelet probes without.
func only(names []string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(names) > 0 && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				if name := r.TLS.PeerCertificates[0].Subject.CommonName; !slices.Contains(names, name) {
					http.Error(w, fmt.Sprintf("%q may not call hooks", name), http.StatusForbidden)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
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
