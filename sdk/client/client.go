package client

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Client calls the handlers of a registry. It is safe for concurrent use.
type Client struct {
	options    Options
	metrics    *metrics
	transports *transports
	breakers   *breakers
	budget     *wire.Budget
	tracer     trace.Tracer // nil for none
}

// New returns a client. It fails on options that contradict each other and on a
// client certificate that cannot be loaded.
func New(options Options) (*Client, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	m, err := newMetrics(options.Metrics)
	if err != nil {
		return nil, err
	}
	c := &Client{options: options, metrics: m, budget: wire.NewBudget(maxBodyMemory)}
	if options.Tracer != nil {
		c.tracer = options.Tracer.Tracer(tracerName)
	}
	c.breakers = newBreakers(&c.options, m)
	if c.transports, err = newTransports(&c.options, m); err != nil {
		return nil, err
	}
	return c, nil
}

// Call calls the handler with the qualified name for object. The request is not
// changed. The errors are those of the package's documentation and of
// registry.Registry.MatchHandler.
func Call[Q, R any](ctx context.Context, c *Client, h hook.Hook[Q, R], handler string, object registry.Object, request *Q) (*R, error) {
	response, err := c.Invoke(ctx, h, handler, object, any(request).(runtime.Object))
	if err != nil {
		return nil, err
	}
	return any(response).(*R), nil
}

// Result is the outcome of CallAll.
type Result[R any] struct {
	// Response aggregates the responses: status Success, the messages joined, and
	// the shortest retryAfterSeconds that is not zero. Other fields are empty.
	Response *R
	// Handlers holds what each handler answered, ordered by name.
	Handlers []HandlerResult[R]
	// Outcome is the untyped form.
	*Outcome
}

// HandlerResult is the answer of one handler.
type HandlerResult[R any] struct {
	// Name is the qualified name of the handler.
	Name string
	// Response is the handler's response, or an empty one with status Success if
	// an error was ignored.
	Response *R
	// Ignored is the *CallError that the failure policy Ignore swallowed.
	Ignored error
}

// CallAll calls all handlers of h that match object and aggregates their
// responses. It returns an *AggregateError if any of them failed, after all of
// them have ended: all are called again anyway.
func CallAll[Q, R any](ctx context.Context, c *Client, h hook.Hook[Q, R], object registry.Object, request *Q) (*Result[R], error) {
	outcome, err := c.InvokeAll(ctx, h, object, any(request).(runtime.Object))
	if err != nil {
		return nil, err
	}
	result := &Result[R]{Response: any(outcome.Response).(*R), Outcome: outcome}
	for _, answer := range outcome.Answers {
		result.Handlers = append(result.Handlers, HandlerResult[R]{
			Name: answer.Name, Response: any(answer.Response).(*R), Ignored: answer.Ignored,
		})
	}
	return result, nil
}

// Invoke is Call for a hook whose types are not known at compile time.
func (c *Client) Invoke(ctx context.Context, h hook.Any, handler string, object registry.Object, request runtime.Object) (hooksv1.ResponseObject, error) {
	definition, err := c.known(h)
	if err != nil {
		return nil, err
	}
	registration, err := c.options.Registry.MatchHandler(ctx, handler, object)
	if err != nil {
		return nil, err
	}
	encoder, err := c.newEncoder(definition, object, request)
	if err != nil {
		return nil, err
	}
	answer, err := c.answer(ctx, encoder, registration)
	return answer.Response, err
}

// known refuses hooks that are not in the catalog.
func (c *Client) known(h hook.Any) (*hook.Definition, error) {
	definition := h.Definition()
	if definition == nil {
		return nil, fmt.Errorf("client: the zero Hook names no hook")
	}
	if c.options.Catalog.Get(definition.Name) != definition {
		return nil, fmt.Errorf("client: hook %s is not in the catalog", definition.Name)
	}
	return definition, nil
}

// Handlers returns the qualified names of the handlers of h that match object, in order.
func (c *Client) Handlers(ctx context.Context, h hook.Any, object registry.Object) ([]string, error) {
	definition, err := c.known(h)
	if err != nil {
		return nil, err
	}
	registrations, err := c.options.Registry.Match(ctx, definition.Name.GroupHook(), object)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(registrations))
	for i, r := range registrations {
		names[i] = r.Name
	}
	return names, nil
}
