package extension

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// Options configures a Server. The zero value serves Cluster API's hooks on port
// 9443 and needs only CertFile and KeyFile to Run.
type Options struct {
	// Catalog holds the hooks that may be handled. Default: those of Cluster API.
	Catalog *hook.Catalog
	// Address is where Run listens. Default: ":9443".
	Address string
	// PathPrefix is the path below which hooks are served, as in the
	// clientConfig of the ExtensionConfig. Default: none.
	PathPrefix string
	// CertFile and KeyFile hold the serving certificate and its key in PEM form.
	// They are read again when they change.
	CertFile, KeyFile string
	// ClientCAFile holds the CAs, in PEM form, one of which must have signed the
	// certificate of a caller. It is read again when it changes. Health and
	// readiness stay open to callers without a certificate. Default: anyone may call.
	ClientCAFile string
	// ClientNames are the common names of the certificates that may call hooks, for a CA that signs for
	// others as well. Default: all certificates of ClientCAFile.
	ClientNames []string
	// MaxRequestBytes bounds the body of one request. Twice as much bounds the bodies of all
	// requests from their first byte to their answer, apart from 32 KiB each for 256 of them. A
	// body counts twice, for itself and for what it is decoded to; one that finds no room waits
	// for 5 s and is answered with 503. Default: 20 MiB, as much as Cluster API's own server
	// and client accept.
	MaxRequestBytes int64
	// MaxConcurrent bounds the handlers that run at the same time; more requests
	// are answered with 503. Default: 256.
	MaxConcurrent int
	// ReadTimeout bounds the time to receive a request of up to 32 KiB, and of
	// each 256 KiB of a larger one, which must arrive within 30 s as a whole.
	// Default: 5 s.
	ReadTimeout time.Duration
	// DrainDelay is how long the server goes on accepting calls after it has
	// become unready, so that load balancers notice. Default: none.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for running handlers at the end. Default: 35 s.
	DrainTimeout time.Duration
	// Ready is asked for /readyz while the server serves. Default: always ready.
	Ready func(context.Context) error
	// Metrics is where the server registers its metrics; servers may share a registry. A manager of
	// controller-runtime serves those in sigs.k8s.io/controller-runtime/pkg/metrics.Registry.
	// Default: a new registry.
	Metrics prometheus.Registerer
	// Gatherer has what is served at /metrics, to the callers of hooks; prometheus.Gatherers{} has nothing.
	// Default: Metrics, if it gathers as well, as a registry does.
	Gatherer prometheus.Gatherer
	// Tracer makes a span for each call, as the child of the caller's span.
	// Default: no spans.
	Tracer trace.TracerProvider
	// Interceptors wrap each handler, discovery included. The first one is the
	// outermost. Default: none.
	Interceptors []Interceptor
	// Logger is told when the server begins and ends to serve, of certificates that
	// are read again, of what is refused, and what each call came to: errors, panics
	// and wishes to be called again at the usual level, successes at V(1). Handlers
	// find it in their context, with the hook, the handler, the object and the ID of
	// the request. logr.FromSlogHandler(slog.DiscardHandler) says nothing.
	// Default: the handler of slog.Default().
	Logger logr.Logger
}

func (o *Options) complete() error {
	if o.Catalog == nil {
		o.Catalog = hook.NewCatalog()
		if err := capi.AddToCatalog(o.Catalog); err != nil {
			return err
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("extension: CertFile and KeyFile must be given together")
	}
	if len(o.ClientNames) > 0 && o.ClientCAFile == "" {
		return errors.New("extension: ClientNames are those of certificates of ClientCAFile, which must be given")
	}
	if o.PathPrefix = strings.Trim(o.PathPrefix, "/"); o.PathPrefix != "" {
		o.PathPrefix = "/" + o.PathPrefix
	}
	if o.MaxRequestBytes < 0 || o.MaxConcurrent < 0 ||
		o.ReadTimeout < 0 || o.DrainDelay < 0 || o.DrainTimeout < 0 {
		return errors.New("extension: limits and durations must not be negative")
	}
	setDefault(&o.Address, ":9443")
	setDefault(&o.MaxRequestBytes, 20<<20)
	setDefault(&o.MaxConcurrent, 256)
	setDefault(&o.ReadTimeout, 5*time.Second)
	setDefault(&o.DrainTimeout, 35*time.Second)
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.Gatherers{}
		if g, ok := o.Metrics.(prometheus.Gatherer); ok {
			o.Gatherer = g
		}
	}
	if o.Logger.IsZero() {
		o.Logger = logr.FromSlogHandler(slog.Default().Handler())
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
