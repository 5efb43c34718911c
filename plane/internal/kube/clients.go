package kube

import (
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// identifyClients counts the connection of each request that was authenticated, by certificate or by token, and
// authorized for its user. The aggregator is the first server of the chain, and the only one whose handlers
// authenticate.
func identifyClients(config *aggregator.Config) {
	generic := &config.GenericConfig.Config
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *server.Config) http.Handler { return build(identifying(api), c) }
}

// identifying wraps a handler that is behind authentication and authorization.
func identifying(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, ok := request.UserFrom(r.Context()); ok && slices.Contains(u.GetGroups(), user.AllAuthenticated) {
			listener.Identify(r.Context(), u.GetName())
		}
		api.ServeHTTP(w, r)
	})
}

// handshakes gives TLS handshakes of a server as long as package listener does: upstream's gives them 32 s, which no
// option changes. net/http sets a deadline for a handshake, and takes it away after it.
type handshakes struct{ net.Listener }

// Accept implements net.Listener.
func (l handshakes) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &handshake{Conn: c, end: time.Now().Add(listener.HandshakeTimeout)}, nil
}

type handshake struct {
	net.Conn
	end  time.Time
	over atomic.Bool
}

// SetReadDeadline implements net.Conn.
func (c *handshake) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.over.Store(true)
	}
	if !c.over.Load() && t.After(c.end) {
		t = c.end
	}
	return c.Conn.SetReadDeadline(t)
}
