package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/console/watch"
	"github.com/slipway-dev/slipway/sdk/listener"
)

// DefaultAddress is a free port of the loopback device.
const DefaultAddress = "127.0.0.1:0"

// Config is the management cluster that a console shows, and to whom.
type Config struct {
	// Address to listen on, host:port; only one of the loopback device is taken.
	Address string
	// Rest and Client act with the rights of the user.
	Rest   *rest.Config
	Client client.WithWatch
	// Namespace is the only one that is shown; empty for all.
	Namespace string
	// Name of the management cluster, for its title.
	Name string
	// User who signed in, for the title; empty where the console is the user's own.
	User string
	// ReadOnly refuses whatever changes something.
	ReadOnly bool
	// Kubeconfig reads that of a cluster; nil where no page gives one away.
	Kubeconfig func(context.Context, client.Reader, client.ObjectKey) ([]byte, error)
	// Explain adds to an error of the cluster what to do about it.
	Explain func(error) error

	// heartbeat of live pages; the usual one for zero.
	heartbeat time.Duration
}

// Console listens, and serves when Serve is called.
type Console struct {
	listener net.Listener
	guard    *guard
	handler  http.Handler
	// end ends what was begun for pages.
	end func()
}

// Listen makes a console whose watches end with ctx.
func Listen(ctx context.Context, config Config) (*Console, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", config.Address, err)
	}
	// Judged by what was bound: a name may lead anywhere.
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("%s is not an address of this machine alone: the console has your rights, so it listens on loopback only, such as 127.0.0.1:8080", config.Address)
	}
	g := newGuard(address)
	pages, end, err := NewPages(ctx, config, g.csrf)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &Console{listener: listener.New(l, listener.Options{}), guard: g, handler: g.protect(pages), end: end}, nil
}

// NewPages returns the pages for one user, whose watches end with ctx; end, called before, ends what was begun for them on
// hosts. Who serves them admits that user alone, by a Door whose forms have csrf.
func NewPages(ctx context.Context, config Config, csrf string) (pages http.Handler, end func(), err error) {
	reader, err := watch.Start(ctx, config.Rest, config.Client, config.Namespace)
	if err != nil {
		return nil, nil, err
	}
	s, err := newServer(config, reader, csrf)
	if err != nil {
		return nil, nil, err
	}
	reader.Follow(&corev1.Event{}, &s.timeline)
	s.heartbeats.Touch = reader.Touch
	reader.Follow(&coordinationv1.Lease{}, &s.heartbeats)
	return s.routes(), s.logs.end, nil
}

// URL opens the console in one browser, once.
func (c *Console) URL() string { return c.guard.url() }

// Serve answers until ctx ends.
func (c *Console) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           c.handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		// It quotes what clients send.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	defer c.end()
	if err := server.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
