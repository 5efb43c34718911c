package manager

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/program"
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
	if err := program.RegisterMetrics(server.Collectors()...); err != nil {
		return err
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
