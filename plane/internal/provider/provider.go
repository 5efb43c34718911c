package provider

import (
	"context"
	"net"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/plane/internal/capi"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// hostMachineConcurrency is three times that of core's controllers. With thousands of
// machines at once the plane is short of CPU, and what core does for a machine has to
// wait for its host anyway.
const hostMachineConcurrency = 30

// Slipway returns the provider, which connects to runtime extensions by dial. The
// setups are added to its manager: what of the plane watches Cluster API's objects
// needs no caches of its own.
func Slipway(dial func(ctx context.Context, network, address string) (net.Conn, error), setups ...func(context.Context, ctrl.Manager) error) (serve.Provider, error) {
	byObject, err := manager.CacheByObject()
	if err != nil {
		return serve.Provider{}, err
	}
	info := manifests.Provider{
		Name: "slipway", Type: clusterctlv1.InfrastructureProviderType,
		Namespace: "slipway-system", Version: version.Version,
	}
	options := manager.DefaultOptions()
	options.SkipNameValidation = true
	options.DialExtension = dial
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
	return serve.Provider{
		Provider: capi.Provider{
			Info:      info,
			Client:    capi.ServiceAccount(info, "slipway-manager"),
			Types:     []capi.AddToScheme{manager.AddToScheme},
			Configure: func(o *ctrl.Options) { o.Cache.ByObject = byObject },
			Setup:     setup,
		},
		Manifests: manifests.Extra{Provider: info, Files: config.FS},
	}, nil
}
