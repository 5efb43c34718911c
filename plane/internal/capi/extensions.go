package capi

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoExtensions is what registering an extension says.
var errNoExtensions = errors.New("the plane's Runtime SDK client is not part of this release: extensions cannot be registered")

// noExtensions is a Runtime SDK client with an empty registry: no hook has a
// handler, so lifecycle hooks pass, and calling a named handler fails.
type noExtensions struct{}

var _ runtimeclient.Client = noExtensions{}

func (noExtensions) WarmUp(*runtimev1.ExtensionConfigList) error { return nil }

func (noExtensions) IsReady() bool { return true }

func (noExtensions) Discover(context.Context, *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	return nil, errNoExtensions
}

func (noExtensions) Register(*runtimev1.ExtensionConfig) error { return errNoExtensions }

// Unregister succeeds: nothing is registered.
func (noExtensions) Unregister(*runtimev1.ExtensionConfig) error { return nil }

func (noExtensions) GetAllExtensions(context.Context, runtimecatalog.Hook, client.Object) ([]string, error) {
	return nil, nil
}

// CallAllExtensions answers what upstream's client does without handlers.
func (noExtensions) CallAllExtensions(_ context.Context, _ runtimecatalog.Hook, _ client.Object, _ runtimehooksv1.RequestObject, resp runtimehooksv1.ResponseObject) error {
	resp.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	return nil
}

func (noExtensions) CallExtension(_ context.Context, _ runtimecatalog.Hook, _ client.Object, name string, _ runtimehooksv1.RequestObject, _ runtimehooksv1.ResponseObject, _ ...runtimeclient.CallExtensionOption) error {
	return fmt.Errorf("extension handler %q: %w", name, errNoExtensions)
}

// extensionRefuser takes the place of upstream's ExtensionConfig controller,
// which ends the whole manager a minute after a discovery failed. It says in
// the object's conditions that the extension will not be called.
type extensionRefuser struct {
	client client.Client
}

func (r *extensionRefuser) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&runtimev1.ExtensionConfig{}).Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *extensionRefuser) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &runtimev1.ExtensionConfig{}
	if err := r.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	helper, err := patch.NewHelper(config, r.client)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("patch ExtensionConfig %s: %w", req.Name, err)
	}
	conditions.Set(config, metav1.Condition{
		Type:    runtimev1.ExtensionConfigDiscoveredCondition,
		Status:  metav1.ConditionFalse,
		Reason:  runtimev1.ExtensionConfigNotDiscoveredReason,
		Message: errNoExtensions.Error(),
	})
	return ctrl.Result{}, helper.Patch(ctx, config, patch.WithOwnedConditions{
		Conditions: []string{runtimev1.ExtensionConfigDiscoveredCondition},
	})
}
