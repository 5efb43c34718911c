package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/sdk/listener"
)

// healthServer serves /healthz, /readyz and /metrics of the agent on a loopback address
// or a unix socket.
type healthServer struct {
	// Version of the agent.
	Version string
	// Journal of the agent.
	Journal *journal.Journal
	// LastHeartbeat returns when the server last accepted one; zero if never.
	LastHeartbeat func() time.Time
	// LeaseDuration returns after how long the agent counts as away.
	LeaseDuration func() time.Duration
	// VirtualIP of the control plane. May be nil.
	VirtualIP virtualIPMetrics
	// CertificateExpires returns the end of the client certificate.
	CertificateExpires func() time.Time
}

// healthConnections bounds those of local users, who need no rights for it.
var healthConnections = listener.Options{Anonymous: 64}

// virtualIPMetrics tells what the host does about the control-plane address.
type virtualIPMetrics interface {
	Status() vip.Status
	Counters() vip.Counters
}

// serve blocks until the context ends. The address is as in the configuration.
func (s healthServer) serve(ctx context.Context, address string) error {
	l, err := listen(address)
	if err != nil {
		return fmt.Errorf("serve health on %s: %w", address, err)
	}
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		defer func() { _ = durable.WithParent("", path, removeStaleSocket) }() // nobody answers at it any more
	}
	if err := server.Serve(listener.New(l, healthConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func listen(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return net.Listen("tcp", address)
	}
	if err := durable.WithParent("", path, removeStaleSocket); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // serve removes it: by its path it may be something else by then
	return l, nil
}

// removeStaleSocket removes the socket that an agent left, and nothing else.
func removeStaleSocket(in *durable.Dir, name string) error {
	path := in.Path(name)
	info, err := in.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); info.Mode().Type() != os.ModeSocket || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a socket of this user; remove it or set another healthAddress in the agent's configuration", path)
	}
	connection, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("another program listens on %s; stop it or set another healthAddress in the agent's configuration", path), connection.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return in.Remove(name)
}

func (s healthServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		last := s.LastHeartbeat()
		if last.IsZero() || time.Since(last) > s.LeaseDuration() {
			http.Error(w, "no fresh heartbeat", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, s.metrics())
	})
	return mux
}
