package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/controller/host"
)

// caInterval is how often the CA of the server of host bundles is read again.
const caInterval = time.Minute

// setupHostBundles serves the bundles of a directory to hosts, in every replica.
func setupHostBundles(_ context.Context, mgr ctrl.Manager, o Options) error {
	if o.HostBundles.Dir == "" {
		return nil
	}
	server, err := bundleserver.New(o.HostBundles, bundleserver.Hosts{Reader: mgr.GetClient()}, mgr.GetLogger().WithName("host-bundles"))
	if err != nil {
		return err
	}
	for _, collector := range server.Collectors() {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(collector); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("register the metrics of host bundles: %w", err)
		}
	}
	return mgr.Add(server)
}

// bundles is where hosts are told that bundles are; nil for nowhere. A CA that cannot be
// read is told as it was: hosts that do not know it fail to connect, and say so.
func bundles(mgr ctrl.Manager, o Options) func() host.BundleServer {
	if o.HostBundles.Dir == "" {
		return nil
	}
	var mu sync.Mutex
	var read time.Time
	told := host.BundleServer{URL: o.HostBundles.URL}
	return func() host.BundleServer {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < caInterval {
			return told
		}
		read = time.Now()
		hash, err := o.HostBundles.CAHash()
		if err != nil {
			mgr.GetLogger().Error(err, "Cannot read the CA of the server of host bundles")
			return told
		}
		told.CAHash = hash
		return told
	}
}
