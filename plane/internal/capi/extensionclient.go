package capi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// extensionClient is upstream's client of runtime extensions on top of the SDK.
type extensionClient struct {
	names    *runtimecatalog.Catalog
	catalog  *hook.Catalog
	registry *registry.Registry
	client   *sdkclient.Client
}

var _ runtimeclient.Client = (*extensionClient)(nil)

// newCatalog returns the hooks of Cluster API.
func newCatalog() (*hook.Catalog, error) {
	catalog := hook.NewCatalog()
	return catalog, capi.AddToCatalog(catalog)
}

// newExtensionClient returns a Client that calls the handlers of r through c. The catalog
// is c's.
func newExtensionClient(catalog *hook.Catalog, r *registry.Registry, c *sdkclient.Client) (*extensionClient, error) {
	names := runtimecatalog.New()
	if err := hooksv1.AddToCatalog(names); err != nil {
		return nil, fmt.Errorf("upstream's catalog of hooks: %w", err)
	}
	return &extensionClient{names: names, catalog: catalog, registry: r, client: c}, nil
}

// WarmUp makes the client ready, with the configs that are valid. Unlike upstream's
// it tells of the others but does not refuse all because of them.
func (c *extensionClient) WarmUp(list *runtimev1.ExtensionConfigList) error {
	if list == nil {
		return errors.New("no list of ExtensionConfigs given")
	}
	var errs []error
	var entries []registry.Entry
	for i := range list.Items {
		entry, err := registry.FromExtensionConfig(&list.Items[i])
		if err != nil {
			c.registry.SetUnresolved(entry, err)
			errs = append(errs, fmt.Errorf("ExtensionConfig %s: %w", entry.Name, err))
			continue
		}
		entries = append(entries, entry)
	}
	return errors.Join(append(errs, c.registry.WarmUp(entries...))...)
}

// IsReady implements upstream's interface.
func (c *extensionClient) IsReady() bool { return c.registry.Ready() }

// Discover implements upstream's interface.
func (c *extensionClient) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		return nil, fmt.Errorf("ExtensionConfig %s: %w", config.Name, err)
	}
	handlers, err := c.client.Discover(ctx, entry)
	if err != nil {
		return nil, err
	}
	discovered := config.DeepCopy()
	discovered.Status.Handlers = handlers
	return discovered, nil
}

// Register implements upstream's interface.
func (c *extensionClient) Register(config *runtimev1.ExtensionConfig) error {
	if !c.registry.Ready() {
		return registry.ErrNotReady
	}
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		return fmt.Errorf("ExtensionConfig %s: %w", config.Name, err)
	}
	return c.registry.Set(entry)
}

// Unregister implements upstream's interface.
func (c *extensionClient) Unregister(config *runtimev1.ExtensionConfig) error {
	if !c.registry.Ready() {
		return registry.ErrNotReady
	}
	c.registry.Remove(config.Name)
	c.client.Forget(config.Name)
	return nil
}

// GetAllExtensions returns the names of the matching handlers, ordered.
func (c *extensionClient) GetAllExtensions(ctx context.Context, h runtimecatalog.Hook, object client.Object) ([]string, error) {
	d, err := c.lookUp(h)
	if err != nil {
		return nil, err
	}
	names, err := c.client.Handlers(ctx, d, object)
	if err != nil {
		return nil, fmt.Errorf("find the extension handlers of hook %s: %w", d.Name.Hook, err)
	}
	return names, nil
}

// CallAllExtensions calls all matching handlers at the same time and aggregates
// their answers into response. On an error response is left as it was.
func (c *extensionClient) CallAllExtensions(ctx context.Context, h runtimecatalog.Hook, object client.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	d, err := c.lookUp(h)
	if err != nil {
		return err
	}
	if err := check(d, response); err != nil {
		return err
	}
	outcome, err := c.client.InvokeAll(ctx, d, object, request)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to call extension handlers", "hook", d.Name.Hook)
		return fmt.Errorf("call the extension handlers of hook %s: %w", d.Name.Hook, err)
	}
	assign(response, outcome.Response)
	return nil
}

// CallExtension calls one handler. If the handler answers with Failure, response
// holds status and message of the answer beside the error.
func (c *extensionClient) CallExtension(ctx context.Context, h runtimecatalog.Hook, object client.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject, options ...runtimeclient.CallExtensionOption) error {
	d, err := c.lookUp(h)
	if err != nil {
		return err
	}
	if err := check(d, response); err != nil {
		return err
	}
	o := &runtimeclient.CallExtensionOptions{}
	for _, option := range options {
		option.ApplyToOptions(o)
	}
	answer, err := c.cached(ctx, d, object, name, request, o)
	if err != nil {
		var rejected *sdkclient.RejectedError
		if errors.As(err, &rejected) {
			response.SetStatus(rejected.Status)
			response.SetMessage(rejected.Message)
		}
		return fmt.Errorf("call extension handler %q: %w", name, err)
	}
	assign(response, answer)
	return nil
}

// cached answers from upstream's cache when the caller has one. What is in there
// is shared by all callers, hence the copies. An answer that asks for a retry is
// not kept, which upstream's client would do.
func (c *extensionClient) cached(ctx context.Context, d *hook.Definition, object client.Object, name string, request hooksv1.RequestObject, o *runtimeclient.CallExtensionOptions) (hooksv1.ResponseObject, error) {
	if !o.WithCaching {
		return c.client.Invoke(ctx, d, name, object, request)
	}
	registration, err := c.registry.MatchHandler(ctx, name, object)
	if err != nil {
		return nil, err
	}
	key := o.CacheKeyFunc(registration.Name, registration.ResourceVersion, withSettings(request, registration.Settings))
	if entry, ok := o.Cache.Has(key); ok {
		if err := check(d, entry.Response); err != nil {
			return nil, fmt.Errorf("cached answer: %w", err)
		}
		return entry.Response.DeepCopyObject().(hooksv1.ResponseObject), nil
	}
	answer, err := c.client.Invoke(ctx, d, name, object, request)
	if err != nil {
		return nil, err
	}
	if retry, ok := answer.(hooksv1.RetryResponseObject); !ok || retry.GetRetryAfterSeconds() == 0 {
		o.Cache.Add(runtimeclient.CallExtensionCacheEntry{CacheKey: key, Response: answer.DeepCopyObject().(hooksv1.ResponseObject)})
	}
	return answer, nil
}

// withSettings is the request as the handler gets it; keys of caches depend on it.
func withSettings(request hooksv1.RequestObject, settings map[string]string) hooksv1.RequestObject {
	merged := maps.Clone(settings)
	if merged == nil {
		merged = map[string]string{}
	}
	request = request.DeepCopyObject().(hooksv1.RequestObject)
	maps.Copy(merged, request.GetSettings())
	request.SetSettings(merged)
	return request
}

// lookUp returns the hook that upstream names by a function.
func (c *extensionClient) lookUp(h runtimecatalog.Hook) (*hook.Definition, error) {
	name, err := c.names.GroupVersionHook(h)
	if err != nil {
		return nil, fmt.Errorf("look up the hook: %w", err)
	}
	d := c.catalog.Get(name)
	if d == nil {
		return nil, fmt.Errorf("hook %s is not in the catalog", name)
	}
	return d, nil
}

// check tells whether response is one of the hook.
func check(d *hook.Definition, response hooksv1.ResponseObject) error {
	if !d.IsResponse(response) {
		return fmt.Errorf("hook %s: the response is a %T, want a non-nil %T", d.Name.Hook, response, d.NewResponse())
	}
	return nil
}

// assign copies what src points to. Both were checked to be of one type.
func assign(dst, src hooksv1.ResponseObject) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}
