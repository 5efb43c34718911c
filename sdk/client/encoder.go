package client

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// encoder encodes one request for many handlers: once for all that implement the
// same version and have the same settings.
type encoder struct {
	client     *Client
	definition *hook.Definition
	request    runtime.Object
	object     objectKey

	mu      sync.Mutex
	encoded []encodedRequest
}

type encodedRequest struct {
	version  hook.GroupVersionHook
	settings map[string]string
	payload  []byte
}

func (c *Client) newEncoder(definition *hook.Definition, object registry.Object, request runtime.Object) (*encoder, error) {
	if !definition.IsRequest(request) {
		return nil, fmt.Errorf("client: %T is not the request of hook %s", request, definition.Name)
	}
	return &encoder{client: c, definition: definition, request: request, object: keyOf(object)}, nil
}

// withSettings returns a copy of the request at the caller's version with the
// settings of r added. Settings of the request win.
func (e *encoder) withSettings(r *registry.Registration) runtime.Object {
	request, _ := e.definition.CopyRequest(e.request)
	if carrier, ok := request.(hooksv1.RequestObject); ok && len(r.Settings) > 0 {
		merged := maps.Clone(r.Settings)
		maps.Copy(merged, carrier.GetSettings())
		carrier.SetSettings(merged)
	}
	return request
}

// encode returns the request for r at the version of conversion.
func (e *encoder) encode(r *registry.Registration, conversion *hook.Conversion) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, known := range e.encoded {
		if known.version == r.Hook && maps.Equal(known.settings, r.Settings) {
			return known.payload, nil
		}
	}
	object, err := conversion.DownRequest(e.withSettings(r))
	if err != nil {
		return nil, err
	}
	conversion.Older().MarkRequest(object)
	payload, err := wire.Encode(object)
	if err != nil {
		return nil, err
	}
	e.encoded = append(e.encoded, encodedRequest{version: r.Hook, settings: r.Settings, payload: payload})
	return payload, nil
}
