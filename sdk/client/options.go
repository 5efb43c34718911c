package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

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
	setDefault(&o.MaxConcurrent, 32)
	setDefault(&o.Deadline, 30*time.Second)
	setDefault(&o.Backoff.Initial, time.Second)
	setDefault(&o.Backoff.Max, time.Minute)
	setDefault(&o.Backoff.Factor, 2)
	setDefault(&o.Backoff.Jitter, 0.2)
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

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
