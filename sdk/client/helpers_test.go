package client_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

type (
	apiObject = runtime.Object
	req       = hooksv1.BeforeClusterCreateRequest
	resp      = hooksv1.BeforeClusterCreateResponse
)

func succeed(context.Context, *req) (*resp, error) { return nil, nil }

// dialInstead connects to another address than asked for.
func dialInstead(asked, address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, wanted string) (net.Conn, error) {
		if wanted == asked {
			wanted = address
		}
		return (&net.Dialer{}).DialContext(ctx, network, wanted)
	}
}

// watchedConn tells that the client has closed it.
type watchedConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// watchedConns are the connections that a client has made.
type watchedConns chan *watchedConn

func (w watchedConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	watched := &watchedConn{Conn: conn, closed: make(chan struct{})}
	w <- watched
	return watched, nil
}

// awaitClosed waits until the client has closed the connection that it made after those
// that were waited for before.
func (w watchedConns) awaitClosed(t *testing.T) {
	t.Helper()
	conn := <-w
	select {
	case <-conn.closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the client keeps a connection on which nothing good can come any more")
	}
}

func decodeBody(t testing.TB, r *http.Request, into any) {
	t.Helper()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Error(err)
	}
}
