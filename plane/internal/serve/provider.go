package serve

import (
	"context"
	"net"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/program"
	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/pki"
)

// hostMachineConcurrency is three times that of core's controllers. With thousands of
// machines at once the plane is short of CPU, and what core does for a machine has to
// wait for its host anyway.
const hostMachineConcurrency = 30

// hooksAddress is where the hooks of updates in place are served, on loopback of the plane's
// namespace.
const hooksAddress = "127.0.0.1:9547"

// The Service of the hooks in a management cluster. The plane has none, and connects to
// the manager itself.
const (
	namespace = "slipway-system"
	service   = "slipway-extension-service"
)

// ProviderServices are the addresses, in the namespace of the plane, of what the ExtensionConfig
// names by its Service.
func ProviderServices() map[string]string {
	return map[string]string{service + "." + namespace + ".svc:443": hooksAddress}
}

// ProviderExtension is what the manager answers Cluster API.
func ProviderExtension() Extension {
	return Extension{
		Server:   pki.Server{Name: "slipway-manager", DNSNames: []string{service + "." + namespace + ".svc"}},
		Manifest: config.InPlaceUpdates,
	}
}

// ProviderOptions of the provider. Dial and Authority are required.
type ProviderOptions struct {
	// Dial connects to runtime extensions.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Authority has the certificate of ProviderExtension, and the CA of who calls it.
	Authority *pki.Authority
	// HostBundles are served to hosts.
	HostBundles bundleserver.Options
}

// SlipwayProvider returns the provider. The setups are added to its manager: what of the plane
// watches Cluster API's objects needs no caches of its own.
func SlipwayProvider(o ProviderOptions, setups ...func(context.Context, ctrl.Manager) error) (Provider, error) {
	byObject, err := manager.CacheByObject()
	if err != nil {
		return Provider{}, err
	}
	info := manifests.Provider{
		Name: "slipway", Type: clusterctlv1.InfrastructureProviderType,
		Namespace: namespace, Version: version.Version,
	}
	options := manager.DefaultOptions()
	options.SkipNameValidation = true
	options.DialExtension = o.Dial
	options.HostBundles = o.HostBundles
	if err := options.FeatureGates.SetFromMap(map[string]bool{string(manager.InPlaceUpdates): true}); err != nil {
		return Provider{}, err
	}
	options.WebhookCertDir = o.Authority.ServerCertDir(ProviderExtension().Server.Name)
	// The plane's CA signs for others, too.
	options.Hooks = program.Hooks{ExtensionAddress: hooksAddress, ExtensionClientCAFile: o.Authority.CACertFile(), ExtensionClientNames: []string{capi.ExtensionCaller.User}}
	options.HostMachineConcurrency = hostMachineConcurrency
	setup := func(ctx context.Context, mgr ctrl.Manager) error {
		if err := manager.SetupWithManager(ctx, mgr, options); err != nil {
			return err
		}
		for _, more := range setups {
			if err := more(ctx, mgr); err != nil {
				return err
			}
		}
		return nil
	}
	return Provider{
		Provider: capi.Provider{
			Info:   info,
			Client: capi.ServiceAccount(info, "slipway-manager"),
			Types:  []capi.AddToScheme{manager.AddToScheme},
			Configure: func(o *ctrl.Options) {
				o.Cache = program.CacheOptions("")
				o.Cache.ByObject = byObject
			},
			Setup: setup,
		},
		Manifests: manifests.Extra{Provider: info, Files: config.FS},
	}, nil
}
