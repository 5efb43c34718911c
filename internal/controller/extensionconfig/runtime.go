package extensionconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
	"github.com/slipway-dev/slipway/sdk/registry/cel"
)

// Runtime is what a process needs to call the extensions of one Kind: the client
// for its controllers, and the registry that the Reconciler fills.
type Runtime struct {
	Catalog  *hook.Catalog
	Registry *registry.Registry
	Client   *sdkclient.Client

	// changed tells the names of configs whose breakers opened or closed.
	changed chan event.GenericEvent
}

// pendingChanges bounds the changes of breakers that wait for the controller.
// What is beyond it is seen at the next discovery.
const pendingChanges = 256

// NewRuntime returns a Runtime whose registry is empty and not ready: calls fail
// until a Reconciler has warmed it up. The reader reads the labels of namespaces
// and should not be a cache: a label that was just set must count. Catalog,
// Registry, OnBreaker, OnIgnored, OnReload and Metrics of the options are set here.
func NewRuntime(reader client.Reader, catalog *hook.Catalog, options sdkclient.Options) (*Runtime, error) {
	r := &Runtime{
		Catalog: catalog,
		Registry: registry.New(registry.Options{
			NamespaceLabels:  namespaceLabels(reader),
			CompileCondition: cel.Compile,
		}),
		changed: make(chan event.GenericEvent, pendingChanges),
	}
	options.Catalog, options.Registry = r.Catalog, r.Registry
	options.Metrics = metrics.Registry
	options.OnBreaker = r.breakerChanged
	options.OnIgnored = func(ctx context.Context, err error) {
		log.FromContext(ctx).Info("Ignored an error of a runtime extension, as its failure policy says", "err", err.Error())
	}
	options.OnReload = func(err error) {
		logger := log.Log.WithName("extensions")
		if err != nil {
			logger.Error(err, "The client certificate cannot be read again, the one before stays in use")
			return
		}
		logger.Info("The client certificate was read again")
	}
	var err error
	if r.Client, err = sdkclient.New(options); err != nil {
		return nil, fmt.Errorf("client for runtime extensions: %w", err)
	}
	return r, nil
}

func namespaceLabels(reader client.Reader) func(context.Context, string) (map[string]string, error) {
	return func(ctx context.Context, name string) (map[string]string, error) {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return nil, err
		}
		return namespace.Labels, nil
	}
}

func (r *Runtime) breakerChanged(handler string, _ sdkclient.BreakerState) {
	changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: hook.ConfigName(handler)}}
	select {
	case r.changed <- event.GenericEvent{Object: changed}:
	default:
	}
}
