package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/internal/poll"
)

type (
	req  = hooksv1.BeforeClusterCreateRequest
	resp = hooksv1.BeforeClusterCreateResponse
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

// awaitClosed waits until the client has closed all connections that it made. One call
// may have made more than one: net/http does not use a connection again whose writer
// was not scheduled for 50 ms after the last request (maxWriteWaitBeforeConnReuse in
// net/http/transport.go).
func (w watchedConns) awaitClosed(t *testing.T) {
	t.Helper()
	for conn, more := <-w, true; more; {
		poll.Until(t, "the client closes a connection on which nothing good can come any more", func() error {
			select {
			case <-conn.closed:
				return nil
			default:
				return errors.New("it is open")
			}
		})
		select {
		case conn = <-w:
		default:
			more = false
		}
	}
}

func decodeBody(t testing.TB, r *http.Request, into any) {
	t.Helper()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Error(err)
	}
}
