package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const (
	discoveryTimeout = 10 * time.Second
	// maxHandlers and maxTimeoutSeconds are what the CRD and upstream accept.
	maxHandlers       = 512
	maxTimeoutSeconds = 30
	maxNameLength     = 512
)

// Discover asks the extension of entry for its handlers and returns them, completed
// with defaults and ordered by name, as they belong into the status of the object
// that registers the extension, and into Entry.Handlers. The error is a *CallError,
// a *RejectedError, or says what is wrong with the answer. The breaker plays no
// part: discovery is how a controller learns that an extension is back.
func (c *Client) Discover(ctx context.Context, entry registry.Entry) ([]runtimev1.ExtensionHandler, error) {
	base, err := registry.BaseURL(entry.ClientConfig)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", entry.Kind, entry.Name, err)
	}
	definition := capi.Discovery.Definition()
	r := &registry.Registration{
		Name: hook.QualifiedName("discovery", entry.Name), Config: entry.Name, Hook: definition.Name,
		URL: registry.HookURL(base, definition.Name, "", discoveryTimeout), CABundle: entry.ClientConfig.CABundle,
		Timeout: discoveryTimeout, FailurePolicy: runtimev1.FailurePolicyFail,
	}
	request := &hooksv1.DiscoveryRequest{}
	definition.MarkRequest(request)
	payload, err := wire.Encode(request)
	if err != nil {
		return nil, err
	}
	answer, err := c.callOnce(ctx, r, definition, payload)
	if err != nil {
		return nil, err
	}
	if status := answer.GetStatus(); status != hooksv1.ResponseStatusSuccess {
		return nil, &RejectedError{Handler: r.Name, Hook: r.Hook, Status: status, Message: answer.GetMessage()}
	}
	response, ok := answer.(*hooksv1.DiscoveryResponse)
	if !ok {
		return nil, fmt.Errorf("discovery of %s %s: the answer is a %T", entry.Kind, entry.Name, answer)
	}
	handlers, err := c.validateHandlers(entry.Name, response.Handlers)
	if err != nil {
		return nil, fmt.Errorf("discovery of %s %s: %w", entry.Kind, entry.Name, err)
	}
	return handlers, nil
}

// validateHandlers completes and checks what an extension says about itself. The
// error names everything that is wrong, in the order of the names.
func (c *Client) validateHandlers(config string, answered []hooksv1.ExtensionHandler) ([]runtimev1.ExtensionHandler, error) {
	if len(answered) > maxHandlers {
		return nil, fmt.Errorf("%d handlers, more than %d", len(answered), maxHandlers)
	}
	answered = slices.Clone(answered)
	slices.SortStableFunc(answered, func(a, b hooksv1.ExtensionHandler) int {
		// By the names they are registered under, as the registry orders them.
		return cmp.Compare(hook.QualifiedName(a.Name, config), hook.QualifiedName(b.Name, config))
	})
	handlers := make([]runtimev1.ExtensionHandler, 0, len(answered))
	var errs []error
	for i, h := range answered {
		if i > 0 && answered[i-1].Name == h.Name {
			errs = append(errs, fmt.Errorf("handler %q is there twice", h.Name))
		}
		completed, err := c.validateHandler(config, h)
		errs = append(errs, err)
		handlers = append(handlers, completed)
	}
	return handlers, errors.Join(errs...)
}

func (c *Client) validateHandler(config string, h hooksv1.ExtensionHandler) (runtimev1.ExtensionHandler, error) {
	var errs []error
	if problems := validation.IsDNS1123Label(h.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("handler %q: invalid name: %s", h.Name, strings.Join(problems, ", ")))
	}
	name := hook.QualifiedName(h.Name, config)
	if len(name) > maxNameLength {
		errs = append(errs, fmt.Errorf("handler %q: the name %q is too long", h.Name, name))
	}
	timeout := int32(hooksv1.DefaultHandlersTimeoutSeconds)
	if h.TimeoutSeconds != nil && *h.TimeoutSeconds != 0 {
		timeout = *h.TimeoutSeconds
	}
	if timeout < 1 || timeout > maxTimeoutSeconds {
		errs = append(errs, fmt.Errorf("handler %q: timeoutSeconds %d is not from 1 to %d", h.Name, timeout, maxTimeoutSeconds))
	}
	policy := runtimev1.FailurePolicyFail
	if h.FailurePolicy != nil {
		policy = runtimev1.FailurePolicy(*h.FailurePolicy)
	}
	if policy != runtimev1.FailurePolicyFail && policy != runtimev1.FailurePolicyIgnore {
		errs = append(errs, fmt.Errorf("handler %q: failurePolicy %q is neither Fail nor Ignore", h.Name, policy))
	}
	gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
	if err != nil {
		errs = append(errs, fmt.Errorf("handler %q: apiVersion %q: %w", h.Name, h.RequestHook.APIVersion, err))
	} else if c.options.Catalog.Get(hook.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: h.RequestHook.Hook}) == nil {
		errs = append(errs, fmt.Errorf("handler %q: hook %s of %s is not in the catalog", h.Name, h.RequestHook.Hook, h.RequestHook.APIVersion))
	}
	return runtimev1.ExtensionHandler{
		Name:           name,
		RequestHook:    runtimev1.GroupVersionHook{APIVersion: h.RequestHook.APIVersion, Hook: h.RequestHook.Hook},
		TimeoutSeconds: timeout,
		FailurePolicy:  policy,
	}, errors.Join(errs...)
}
