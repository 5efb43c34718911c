package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
	"github.com/slipway-dev/slipway/sdk/listener"
)

// Server serves the handlers of one extension.
type Server struct {
	options Options
	metrics *metrics
	budget  *wire.Budget
	slots   chan struct{}
	tls     *tlsSource
	tracer  trace.Tracer // nil for none
	started time.Time

	discovery *handler
	refusals  refusals

	mu       sync.Mutex
	handlers map[string]*handler
	table    atomic.Pointer[table]
	serving  atomic.Bool
}

// Path returns the URL path at which the server serves the handler name of h, with
// Options.PathPrefix. A singleton hook has no handler name.
func (s *Server) Path(h hook.Any, name string) string {
	return s.options.PathPrefix + hook.Path(h.Definition().Name, name)
}

// New returns a server without handlers. It fails on options that contradict each
// other and on certificates that cannot be loaded.
func New(options Options) (*Server, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	m, err := newMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("extension: metrics: %w", err)
	}
	s := &Server{
		options:  options,
		metrics:  m,
		budget:   wire.NewBudget(2 * options.MaxRequestBytes),
		slots:    make(chan struct{}, options.MaxConcurrent),
		handlers: map[string]*handler{},
		started:  time.Now(),
	}
	if options.Tracer != nil {
		s.tracer = options.Tracer.Tracer(tracerName)
	}
	if s.tls, err = newTLSSource(options, s.reloaded); err != nil {
		return nil, fmt.Errorf("extension: %w", err)
	}
	if s.discovery, err = s.newDiscovery(); err != nil {
		return nil, fmt.Errorf("extension: Options.Interceptors: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebuild()
	return s, nil
}

// Handler returns what the server serves, for servers of one's own. Its hooks are
// open to everyone unless ClientCAFile is set and the connection was verified
// with the configuration of TLSConfig.
func (s *Server) Handler() http.Handler {
	metrics := promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			_, _ = w.Write([]byte("ok"))
			return
		case "/readyz":
			s.serveReady(w, r)
			return
		}
		if s.refused(w, r) {
			return
		}
		t := s.table.Load()
		route, ok := t.routes[r.URL.Path]
		switch {
		case ok && r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "hooks are called with POST", http.StatusMethodNotAllowed)
		case ok:
			s.serveHook(w, r, route)
		case r.URL.Path == "/statusz" && r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "the page is read with GET", http.StatusMethodNotAllowed)
		case r.URL.Path == "/statusz":
			s.serveStatus(w, r)
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case r.URL.Path == "/openapi/v3":
			s.serveOpenAPI(w, t)
		default:
			http.Error(w, "there is no handler at this path; see the discovery hook", http.StatusNotFound)
		}
	})
}

// serveOpenAPI writes the OpenAPI document of the hooks that are served.
func (s *Server) serveOpenAPI(w http.ResponseWriter, t *table) {
	document, err := t.openapi()
	if err != nil {
		s.options.Logger.Error(err, "The OpenAPI document cannot be generated")
		http.Error(w, "the OpenAPI document cannot be generated; see the log of the extension", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document)
}

// refused answers a caller without a certificate of a current client CA, or with another name.
func (s *Server) refused(w http.ResponseWriter, r *http.Request) bool {
	if !s.tls.requireClient() {
		return false
	}
	code, why, certificate := http.StatusUnauthorized, "a client certificate of a trusted CA is required", "none"
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		certificate = subject.String()
		if s.tls.trusts(r) {
			if names := s.options.ClientNames; len(names) == 0 || slices.Contains(names, subject.CommonName) {
				return false
			}
			code, why = http.StatusForbidden, fmt.Sprintf("%q may not call hooks", subject.CommonName)
		}
	}
	if host := hostOf(r.RemoteAddr); s.refusals.due(host + " " + certificate) {
		s.options.Logger.Info("A caller was refused", "reason", why, "remoteAddress", r.RemoteAddr, "certificate", certificate, "path", r.URL.Path)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, why, code)
	return true
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

// Check says why the server is not ready. It is a readiness check for managers of controller-runtime:
// mgr.AddReadyzCheck("hooks", server.Check).
func (s *Server) Check(r *http.Request) error {
	if !s.serving.Load() {
		return errors.New("not serving")
	}
	if s.options.Ready != nil {
		return s.options.Ready(r.Context())
	}
	return nil
}

// Start is Run, by the name that a manager of controller-runtime calls: mgr.Add(server). The manager calls
// it when its caches are filled; until then callers are refused the connection, which fails closed.
func (s *Server) Start(ctx context.Context) error { return s.Run(ctx) }

// NeedLeaderElection says that every replica of a manager serves hooks.
func (*Server) NeedLeaderElection() bool { return false }

// Run listens on Options.Address and serves until ctx ends; see Serve.
func (s *Server) Run(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return fmt.Errorf("extension: %w", err)
	}
	return s.Serve(ctx, l)
}

// Serve serves TLS on listener until ctx ends. Then it becomes unready, waits
// DrainDelay, stops accepting, lets running handlers end within DrainTimeout and
// returns nil. It takes over l and may be called once. Connections are limited as package listener
// says: callers without a certificate of ClientCAFile keep out none that has one.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	config, err := s.TLSConfig()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	l = listener.NewTLS(l, config, listener.Options{
		Anonymous: 2 * s.options.MaxConcurrent, Identified: 4 * s.options.MaxConcurrent, ErrorLog: s.errorLog(),
	})
	defer l.Close()
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: min(5*time.Second, s.options.ReadTimeout),
		ReadTimeout:       s.options.ReadTimeout,
		WriteTimeout:      2*MaxTimeout + 5*time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, trustKey{}, &trust{})
		},
		ErrorLog: s.errorLog(),
		// HTTP/2 would bring one connection per caller, and its own ways to
		// exhaust a server; pooled HTTP/1.1 connections are as fast.
		TLSNextProto: map[string]tlsHandler{},
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	s.serving.Store(true)
	s.options.Logger.Info("Listening", "address", l.Addr().String(), "pathPrefix", s.options.PathPrefix,
		"handlers", s.handlerNames(), "clientCertificates", s.tls.requireClient())
	select {
	case err := <-failed:
		s.serving.Store(false)
		return fmt.Errorf("extension: %w", err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	return s.drain(base, cancel, server)
}

func (s *Server) drain(base context.Context, cancel context.CancelFunc, server *http.Server) error {
	s.options.Logger.Info("Shutting down", "runningHandlers", len(s.slots), "drainDelay", s.options.DrainDelay, "drainTimeout", s.options.DrainTimeout)
	delay := time.NewTimer(s.options.DrainDelay)
	defer delay.Stop()
	<-delay.C
	deadline, stop := context.WithTimeout(base, s.options.DrainTimeout)
	defer stop()
	err := server.Shutdown(deadline)
	if err == nil {
		s.options.Logger.Info("Shut down")
		return nil
	}
	cancel()
	if closeErr := server.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return fmt.Errorf("extension: handlers still ran %s after the end: %w", s.options.DrainTimeout, err)
}

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
	o.Address = cmp.Or(o.Address, ":9443")
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 20<<20)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 256)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 5*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 35*time.Second)
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
