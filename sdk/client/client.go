package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
		return nil, fmt.Errorf("client: metrics: %w", err)
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

// CallAll calls all handlers of h that match object and aggregates their
// responses. It returns an *AggregateError if any of them failed, after all of
// them have ended: all are called again anyway.
func CallAll[Q, R any](ctx context.Context, c *Client, h hook.Hook[Q, R], object registry.Object, request *Q) (*Outcome[*R], error) {
	outcome, err := c.InvokeAll(ctx, h, object, any(request).(runtime.Object))
	if err != nil {
		return nil, err
	}
	typed := &Outcome[*R]{Response: any(outcome.Response).(*R), RetryAfter: outcome.RetryAfter}
	for _, a := range outcome.Answers {
		typed.Answers = append(typed.Answers, Answer[*R]{Name: a.Name, Response: any(a.Response).(*R), Ignored: a.Ignored})
	}
	return typed, nil
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

// Options configures a Client.
type Options struct {
	// Catalog holds the hooks that are called and their conversions. Required.
	Catalog *hook.Catalog
	// Registry holds the handlers. Required.
	Registry *registry.Registry
	// CertFile and KeyFile hold the client certificate and its key in PEM form,
	// read again when they change. Default: no client certificate.
	CertFile, KeyFile string
	// MaxConcurrent bounds the handlers that one CallAll calls at a time. Default: 32.
	MaxConcurrent int
	// Deadline bounds one CallAll. Default: 30 s.
	Deadline time.Duration
	// Backoff is how long a handler is left alone that cannot be called.
	Backoff Backoff
	// DialContext connects to the host and port of an extension, for example to
	// resolve services outside of their cluster. Default: a plain dialer that
	// refuses what AllowAddress refuses.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// AllowAddress refuses addresses that no extension may have. It sees the
	// address after name resolution. Default: link-local (where clouds serve
	// credentials), multicast and unspecified addresses are refused.
	AllowAddress func(netip.Addr) error
	// Tracer makes a span for each call and carries it to the extension. Default:
	// no spans.
	Tracer trace.TracerProvider
	// Transport returns what carries the calls of one extension. base trusts the CA
	// bundle of the extension, presents the client certificate and refuses what
	// AllowAddress refuses. It may be returned with other settings, wrapped, or
	// replaced by a transport that answers for all of that. Transport is called
	// again when the bundle or the certificate changes. Default: base as it is.
	Transport func(base *http.Transport) http.RoundTripper
	// Metrics gets the client's collectors. Default: none.
	Metrics prometheus.Registerer
	// OnIgnored is told each error that the failure policy Ignore swallows, to
	// log it. It must not block. Default: none.
	OnIgnored func(ctx context.Context, err error)
	// OnBreaker is told when a handler that was called begins to be left alone, and
	// when it is called again as usual. It must neither block nor use the client.
	// Default: none.
	OnBreaker func(handler string, state BreakerState)
	// OnReload is told when the files of the client certificate were replaced: with
	// nil that the new one is in use, or once for each error why it cannot be, while
	// the one before stays in use. It must not block. Default: none.
	OnReload func(err error)
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

// Backoff describes growing pauses.
type Backoff struct {
	// Initial is the pause after the first failure. Default: 1 s.
	Initial time.Duration
	// Max bounds the pause. Default: 1 min.
	Max time.Duration
	// Factor is by what a pause grows with each failure. Default: 2.
	Factor float64
	// Jitter is the part of the pause that is random, from 0 to 1. Default: 0.2.
	Jitter float64
}

func (o *Options) complete() error {
	if o.Catalog == nil || o.Registry == nil {
		return errors.New("client: Catalog and Registry are required")
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("client: CertFile and KeyFile must be given together")
	}
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 32)
	o.Deadline = cmp.Or(o.Deadline, 30*time.Second)
	o.Backoff.Initial = cmp.Or(o.Backoff.Initial, time.Second)
	o.Backoff.Max = cmp.Or(o.Backoff.Max, time.Minute)
	o.Backoff.Factor = cmp.Or(o.Backoff.Factor, 2)
	o.Backoff.Jitter = cmp.Or(o.Backoff.Jitter, 0.2)
	if o.MaxConcurrent < 0 || o.Deadline < 0 {
		return errors.New("client: MaxConcurrent and Deadline must not be negative")
	}
	if b := o.Backoff; b.Initial < 0 || b.Max < b.Initial || b.Factor < 1 || b.Jitter < 0 || b.Jitter > 1 {
		return errors.New("client: Backoff: want 0 < Initial <= Max, Factor >= 1 and Jitter from 0 to 1")
	}
	if o.AllowAddress == nil {
		o.AllowAddress = RefuseLinkLocal
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
