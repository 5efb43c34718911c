package manager

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
)

// extensionConcurrency is how many extensions are discovered at once.
const extensionConcurrency = 10

// setupExtensions adds the controller of HostExtensionConfigs and returns what calls
// the extensions; nil, upon which every hook passes, without the feature gate. Secrets are
// not watched: the manager may get single ones only.
func setupExtensions(mgr ctrl.Manager, o Options) (*hosthooks.Hooks, error) {
	if !o.FeatureGates.Enabled(HostExtensionConfig) {
		return nil, nil
	}
	catalog, err := hosthooks.Catalog()
	if err != nil {
		return nil, fmt.Errorf("catalog of the host hooks: %w", err)
	}
	rt, err := extensionconfig.NewRuntime(mgr.GetAPIReader(), catalog, sdkclient.Options{DialContext: o.DialExtension, Tracer: o.Tracer})
	if err != nil {
		return nil, err
	}
	err = (&extensionconfig.Reconciler{
		Kind: extensionconfig.Host, Runtime: rt,
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder(reportedBy), WatchFilter: o.WatchFilter,
	}).SetupWithManager(mgr, nil, concurrency(extensionConcurrency, o))
	if err != nil {
		return nil, err
	}
	return &hosthooks.Hooks{Client: rt.Client}, nil
}
